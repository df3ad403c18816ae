"""Compute on the host the text operations of a model's own ``call`` and steps."""

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from muster.data import Dataset, RaggedTensor, SparseTensor, flatten
from muster.program import HostWork, is_array_of_numbers

# The inputs that a step gets, a dict: the numbers of the data, and what the host has computed.
_NUMBERS, _COMPUTED = "numbers_beside_text", "computed_of_text"


class StepTexts:
    """Turns batches that have text into batches of numbers, and shows them with their text to a model's step.

    What a step computes of text by lookup tables, layers that compute on the host, ``tf.strings`` and others
    becomes an input of the step: see `HostElement`.

    Attributes:
        work: What the host computes.
    """

    def __init__(self) -> None:
        self.work = HostWork()
        self._examples: dict[str, Any] = {}
        self._whole = False
        self._structure: Any = None

    def begin(self, batch: Any) -> None:
        """Take a batch as the example on which the step is traced."""
        self._whole = isinstance(batch, tuple) and any(map(_is_text, _leaves(batch[1:])))
        keys, leaves, self._structure = self._flat(self._inputs(batch))
        self._examples = dict(zip(keys, leaves, strict=True))

    def prepare(self, batch: Any) -> Any:
        """Return a batch for a step: labels and weights as they are, unless they have text, too."""
        keys, leaves, _ = self._flat(self._inputs(batch))
        values = dict(zip(keys, leaves, strict=True))
        inputs = {
            _NUMBERS: {key: value for key, value in values.items() if is_array_of_numbers(value)},
            _COMPUTED: self.work.computed(values),
        }
        return inputs if self._whole or not isinstance(batch, tuple) else (inputs, *batch[1:])

    @contextlib.contextmanager
    def shown(self, batch: Any) -> Iterator[Any]:
        """Yield a batch as the model's step sees it in a trace, in a ``with`` block that traces it."""
        inputs, *others = batch if isinstance(batch, tuple) else (batch,)
        numbers = inputs[_NUMBERS]
        with self.work.traced(self._examples, numbers, inputs[_COMPUTED]) as element:
            leaves = [numbers[key] if key in numbers else element.value(key) for key in self._examples]
            data = jax.tree.unflatten(self._structure, leaves)
            yield (data, *others) if others else data

    def _inputs(self, batch: Any) -> Any:
        return batch[0] if isinstance(batch, tuple) and not self._whole else batch

    def _flat(self, inputs: Any) -> tuple[list[str], list[Any], Any]:
        found, structure = jax.tree_util.tree_flatten_with_path(inputs, is_leaf=_is_uneven)
        return (
            [jax.tree_util.keystr(path) or "inputs" for path, _ in found],
            [leaf if _is_uneven(leaf) else np.asarray(leaf) for _, leaf in found],
            structure,
        )


def dataset_has_text(dataset: Any) -> bool:
    """Return whether elements of a dataset have text, by their specs."""
    return isinstance(dataset, Dataset) and any(
        np.dtype(spec.dtype).kind in "SUO" for spec in flatten(dataset.element_spec)
    )


def is_text(data: Any) -> bool:
    """Return whether data in memory has text."""
    return any(map(_is_text, _leaves(data)))


def is_prepared(data: Any) -> bool:
    """Return whether inputs are what `StepTexts.prepare` returns."""
    return isinstance(data, dict) and data.keys() == {_NUMBERS, _COMPUTED}


def _leaves(data: Any) -> list[Any]:
    return jax.tree.leaves(data, is_leaf=lambda each: not isinstance(each, dict | list | tuple))


def _is_text(leaf: Any) -> bool:
    return isinstance(leaf, str | bytes) or (
        isinstance(leaf, np.ndarray | RaggedTensor) and np.dtype(leaf.dtype).kind in "SUO"
    )


def _is_uneven(value: Any) -> bool:
    return isinstance(value, SparseTensor | RaggedTensor)
