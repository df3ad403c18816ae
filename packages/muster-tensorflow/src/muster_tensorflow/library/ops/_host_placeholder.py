"""Operations on placeholders that an exported model's host computes; shapes are inferred from samples."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from muster import DatasetError
from muster.data import (
    ComputedPlaceholder,
    HostPlaceholder,
    Placeholder,
    PlaceholderCall,
    RaggedTensor,
    SparseTensor,
    VarLenFeature,
    flatten,
    rebuild,
    replaced,
    sample_texts,
    spec_of,
)
from muster.extend import as_leaf, object_array

_MOST_SAMPLES = 64


@dataclass(frozen=True)
class Sample:
    """A sample of the values for which a placeholder stands.

    Attributes:
        kinds: Of placeholders that it is computed of, which of `sample_texts` they have.
        values: Its values in two batches that differ in their sizes.
    """

    kinds: Mapping[Placeholder, int]
    values: tuple[Any, Any]


Samples: TypeAlias = Sequence[Sample]


class SampledPlaceholder(HostPlaceholder):
    """Stands for values that the host computes of those of other placeholders.

    Args:
        call: As for `HostPlaceholder`.
        number: As for `HostPlaceholder`.
        samples: What it may stand for, of which its shape and dtype follow.
        column_of: As for `HostPlaceholder`.
    """

    __slots__ = ("_samples",)

    def __init__(
        self, call: PlaceholderCall, number: int, samples: Samples, column_of: Placeholder | None = None
    ) -> None:
        specs = [spec_of(value) for value in samples[0].values]
        is_dense = not any(isinstance(value, SparseTensor | RaggedTensor) for value in samples[0].values)
        shapes = [spec.shape or () for spec in specs]
        alike = is_dense and len(shapes[0]) == len(shapes[1])
        sizes = zip(*shapes, strict=True) if alike else ()
        shape = [size if size == other else None for size, other in sizes]
        super().__init__(specs[0].dtype, shape if alike else None, call, number, column_of)
        self._samples = samples

    @property
    def samples(self) -> Samples:
        """Samples of its values."""
        return self._samples

    def to_tensor(self, default_value: Any = None, name: str | None = None, shape: Any = None) -> Any:
        """Return what is ragged with padded rows: see `RaggedTensor.to_tensor`."""
        return compute_on_host(_padded, (self, default_value, shape), {})


def compute_on_host(
    function: Callable[..., Any], args: Any, kwargs: Any, column_of: Placeholder | None = None
) -> Any:
    """Return what stands for the results of a function of what placeholders stand for.

    Args:
        function: Takes and returns arrays, as a function for ``Dataset.map`` does.
        args: Its arguments, which have placeholders in lists, tuples and dicts.
        kwargs: Its named arguments.
        column_of: As for `HostPlaceholder`.

    Raises:
        DatasetError: It fails with anything that they may stand for.
    """
    found: list[Placeholder] = []
    replaced((args, kwargs), Placeholder, found.append)
    call = PlaceholderCall(function, args, kwargs)
    failures: list[Exception] = []
    results: list[tuple[Mapping[Placeholder, int], tuple[Any, Any]]] = []
    for kinds, values in itertools.islice(_together(list(dict.fromkeys(found))), _MOST_SAMPLES):
        try:
            first, second = (call.results(known.__getitem__) for known in values)
        except Exception as exc:
            failures.append(exc)
        else:
            results.append((kinds, (first, second)))
    if not results:
        raise DatasetError(
            f"{function.__name__} cannot be computed of {', '.join(map(repr, dict.fromkeys(found)))}, for "
            f"which words, numbers and images were tried: {failures[0]}"
        ) from failures[0]
    template = results[0][1][0]
    leaves = [
        SampledPlaceholder(
            call,
            number,
            [
                Sample(kinds, (_leaf(first, number), _leaf(second, number)))
                for kinds, (first, second) in results
                if len(flatten(first)) == len(flatten(template))
            ],
            column_of,
        )
        for number in range(len(flatten(template)))
    ]
    return rebuild(template, leaves)


def is_of_host(placeholder: Placeholder) -> bool:
    """Return whether only the host computes with the values: text, what is ragged or sparse, any images.

    What it has made may have any sizes, and a step is compiled for any number of rows alone.
    """
    shape = placeholder.shape
    if shape is None or placeholder.dtype.kind not in "biufcV":
        return True
    return isinstance(placeholder, HostPlaceholder) and None in shape[1:]


def _together(placeholders: Sequence[Placeholder]) -> Iterator[tuple[dict[Placeholder, int], Any]]:
    """Yield what placeholders may stand for at once: the kinds of texts, and two dicts with their values."""
    for samples in itertools.product(*map(_samples, placeholders)):
        kinds: dict[Placeholder, int] = {}
        if all(kinds.setdefault(of, kind) == kind for each in samples for of, kind in each.kinds.items()):
            pairs = zip(*(each.values for each in samples), strict=True)
            yield kinds, [dict(zip(placeholders, values, strict=True)) for values in pairs]


def _samples(placeholder: Placeholder) -> Samples:
    if isinstance(placeholder, SampledPlaceholder):
        return placeholder.samples
    if isinstance(placeholder, ComputedPlaceholder):
        return [
            Sample(kinds, (_computed(placeholder, first), _computed(placeholder, second)))
            for kinds, (first, second) in _together(placeholder.sources)
        ]
    if placeholder.dtype.kind != "U":
        return [Sample({}, (_filled(placeholder, 0, 1), _filled(placeholder, 1, 1)))]
    return [
        Sample({placeholder: kind}, (_filled(placeholder, 0, texts[0]), _filled(placeholder, 1, texts[1])))
        for kind, texts in enumerate(sample_texts())
    ]


def _computed(placeholder: ComputedPlaceholder, known: Mapping[Placeholder, Any]) -> Any:
    return np.asarray(placeholder.compute([known[each] for each in placeholder.sources]))


def _filled(placeholder: Placeholder, batch: int, value: Any) -> Any:
    """Return values of one of two batches, which differ in all sizes that are free."""
    dtype = np.dtype(object if isinstance(value, bytes) else placeholder.dtype)
    if placeholder.shape is None:
        if placeholder.parsed is None or not isinstance(placeholder.parsed.spec, VarLenFeature):
            raise DatasetError(f"{placeholder!r} has an unknown rank: give it a shape.")
        rows = 2 + batch
        places = np.stack([np.arange(rows), np.zeros(rows, np.int64)], axis=1)
        return SparseTensor(places, _full((rows,), value, dtype), (rows, 1))
    free = [2 if axis == 0 else 3 + 4 * axis for axis in range(len(placeholder.shape))]
    sizes = [
        least + batch if size is None else size for size, least in zip(placeholder.shape, free, strict=True)
    ]
    return _full(tuple(sizes), value, dtype)


def _full(shape: tuple[int, ...], value: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind != "O":
        return np.full(shape, value, dtype)
    size = int(np.prod(shape))
    return object_array([value] * size).reshape(shape) if shape else value


def _leaf(results: Any, number: int) -> Any:
    return as_leaf(flatten(results)[number], copy=False)


def _padded(value: Any, default_value: Any, shape: Any) -> Any:
    return value.to_tensor(default_value, shape=shape)
