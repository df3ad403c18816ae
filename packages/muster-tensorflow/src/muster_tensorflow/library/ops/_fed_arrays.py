"""Datasets over TensorFlow 1's placeholders, fed when their iterator is initialized."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from muster import DatasetError
from muster.data import ComputedPlaceholder, Placeholder, TensorSpec, flatten, rebuild
from muster.extend import ArraySource, Node


class FedArrays(ArraySource):
    """The rows of arrays that placeholders stand for until `feed` gives them values.

    Until then it has zeros of their shapes, by which a pipeline finds the shapes of its elements.

    Args:
        template: A structure of placeholders, and of arrays beside them.
        whole: Whether they make one element, instead of one for each row.

    Raises:
        ValueError: A placeholder has no shape, or no axis of rows.
    """

    def __init__(self, template: Any, *, whole: bool) -> None:
        name = "from_tensors" if whole else "from_tensor_slices"
        leaves = flatten(template)
        for leaf in leaves:
            if isinstance(leaf, Placeholder) and (leaf.shape is None or not (whole or leaf.shape)):
                raise ValueError(
                    f"{name} needs the shape of {leaf!r}{'' if whole else ', with an axis of rows'}: "
                    "tf.placeholder(dtype, array.shape)."
                )
        made = ArraySource.single if whole else ArraySource.slices
        known = [leaf.shape[0] for leaf in leaves if isinstance(leaf, Placeholder) and leaf.shape]
        rows = next((size for size in known if size is not None), 1)
        zeros = [_zeros(leaf, rows) if isinstance(leaf, Placeholder) else leaf for leaf in leaves]
        source = made(rebuild(template, zeros))
        super().__init__(template, source._arrays, name, source._specs)
        self._leaves, self._whole = leaves, whole
        self._fed: list[ArraySource] = []  # the same list in copies of this node

    @property
    def placeholders(self) -> list[Placeholder]:
        """The placeholders that have no values yet, without repetition."""
        if self._fed:
            return []
        found: dict[Placeholder, None] = {}
        for leaf in self._leaves:
            if isinstance(leaf, Placeholder):
                found.update(dict.fromkeys(_sources(leaf)))
        return list(found)

    def feed(self, values: Mapping[Any, Any]) -> None:
        """Take the values of the placeholders; those that were given first stay.

        Args:
            values: Placeholder -> array.

        Raises:
            ValueError: The value of a placeholder is missing, or has another shape.
        """
        if self._fed:
            return
        arrays = [_value(leaf, values) if isinstance(leaf, Placeholder) else leaf for leaf in self._leaves]
        made = ArraySource.single if self._whole else ArraySource.slices
        self._fed.append(made(rebuild(self._template, arrays)))

    def require_values(self) -> None:
        if missing := self.placeholders:
            raise DatasetError(
                f"The dataset is one of placeholders without values: {', '.join(map(repr, missing))}. Let a "
                "hook of the Estimator run `session.run(iterator.initializer, feed_dict={placeholder: "
                "array})` in after_create_session, or give Dataset.from_tensor_slices the arrays themselves."
            )

    @property
    def cardinality(self) -> int:
        return self._fed[0].cardinality if self._fed else super().cardinality

    @property
    def element_spec(self) -> Any:
        """That of the placeholders, before and after they have values."""
        known = flatten(super().element_spec)
        specs = [
            TensorSpec(leaf.shape if self._whole or leaf.shape is None else leaf.shape[1:], leaf.dtype)
            if isinstance(leaf, Placeholder)
            else spec
            for leaf, spec in zip(self._leaves, known, strict=True)
        ]
        return rebuild(self._template, specs)

    def load(self, run: Any, handles: Any) -> Any:
        return self._fed[0].load(run, handles) if self._fed else super().load(run, handles)


def source_of(tensors: Any, whole: bool) -> FedArrays | None:
    """Return the source of a dataset of tensors, if there are placeholders among them: see `FedArrays`."""
    found = any(isinstance(leaf, Placeholder) for leaf in flatten(tensors))
    return FedArrays(tensors, whole=whole) if found else None


def fed_arrays(node: Node) -> Iterator[FedArrays]:
    """Yield the sources of a pipeline that are of placeholders."""
    if isinstance(node, FedArrays):
        yield node
    for source in node.inputs:
        yield from fed_arrays(source)


def _sources(placeholder: Placeholder) -> tuple[Placeholder, ...]:
    return placeholder.sources if isinstance(placeholder, ComputedPlaceholder) else (placeholder,)


def _zeros(placeholder: Placeholder, rows: int) -> np.ndarray[Any, Any]:
    sizes = placeholder.shape or ()
    shape = [rows if size is None and not axis else size or 1 for axis, size in enumerate(sizes)]
    return np.broadcast_to(np.zeros((), placeholder.dtype), shape)


def _value(placeholder: Placeholder, values: Mapping[Any, Any]) -> Any:
    if isinstance(placeholder, ComputedPlaceholder):
        return np.asarray(placeholder.compute([_value(each, values) for each in placeholder.sources]))
    if placeholder not in values:
        raise ValueError(f"feed_dict lacks the value of {placeholder!r}, of which the dataset is made.")
    text = placeholder.dtype.kind == "U"
    value = np.asarray(values[placeholder])
    value = value if text else value.astype(placeholder.dtype, copy=False)
    sizes = placeholder.shape
    if sizes is not None and (
        value.ndim != len(sizes)
        or any(size not in (None, length) for size, length in zip(sizes, value.shape, strict=True))
    ):
        raise ValueError(
            f"feed_dict gives {placeholder!r} an array of shape {value.shape}, and its shape is {sizes}."
        )
    return value
