"""Datasets of which each worker has its own, and iterators over them."""

import itertools
import weakref
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import jax

from muster._arrays import dtype_named
from muster._errors import DatasetError
from muster._user_code import no_stop_iteration
from muster.data import Dataset, GetNext, TensorSpec
from muster.distribute.closures import ArrayKind, kind_of
from muster.distribute.coordinator._pickling import pickled
from muster.distribute.functions._draws import Kind
from muster.distribute.input._distributed_dataset import DistributedDataset
from muster.program.variables import current_scope, variables_owned_by

_numbers = itertools.count(1)

_ON_COORDINATOR = (
    "Iterating over an `AsyncDistributedIterator` is not supported right now: its elements are on the "
    "workers. Pass the iterator to a function: coordinator.schedule(fn, args=(iterator,))."
)


class PerWorkerDataset:
    """A dataset that each worker makes for itself, and reads all of.

    Args:
        source: A dataset, or a function that makes one; it is called here, too, for the spec of elements.

    Raises:
        ValueError: It is neither; or the function needs or creates variables.
        TypeError: The function returns something else than a dataset.

    Source: tensorflow/python/distribute/coordinator/values.py, ``PerWorkerDatasetFromDatasetFunction``.
    """

    def __init__(self, source: Any) -> None:
        if not (isinstance(source, Dataset | DistributedDataset) or callable(source)):
            raise ValueError(
                f"Unexpected dataset type! create_per_worker_dataset takes a Dataset or a function that "
                f"returns one, got {source!r}."
            )
        made = _made_by(source) if callable(source) else source
        self._sample = made.dataset if isinstance(made, DistributedDataset) else made
        self.pickled = pickled(source if callable(source) else self._sample)
        self._kinds: tuple[ArrayKind, ...] | None = None

    @cached_property
    def element_spec(self) -> Any:
        """A structure of ``TensorSpec``."""
        return self._sample.element_spec

    def __iter__(self) -> "PerWorkerIterator":
        if current_scope() is not None:
            raise RuntimeError(
                "__iter__() is not supported inside of tf.function or in graph mode. Make the iterator "
                "outside, and give it to the function as an argument."
            )
        return PerWorkerIterator(self)

    @cached_property
    def key(self) -> Any:
        """What datasets share whose elements are alike."""
        specs, structure = jax.tree.flatten(self.element_spec)
        return structure, tuple((spec.shape, spec.dtype) for spec in specs)

    def first_kind(self) -> Kind:
        """Return what elements are probably like: by the spec, or if that leaves sizes open by the first."""
        specs, structure = jax.tree.flatten(self.element_spec)
        if self._kinds is None:
            if all(_is_known(spec) for spec in specs):
                self._kinds = tuple(ArrayKind(tuple(spec.shape), str(spec.dtype)) for spec in specs)
            else:
                with self._sample.iterator() as elements:
                    first = next(elements, None)
                # Of a dataset without elements only the end is drawn.
                self._kinds = tuple(
                    map(_smallest, specs) if first is None else map(kind_of, jax.tree.leaves(first))
                )
        return kind_with(structure, self._kinds)


class PerWorkerIterator(GetNext):
    """An iterator of each worker, as an argument of scheduled functions, which call `next` on it.

    Attributes:
        number: Its number, by which workers know theirs.
        dataset: The dataset.

    Source: tensorflow/python/distribute/coordinator/values.py, ``PerWorkerDistributedIterator``.
    """

    def __init__(self, dataset: PerWorkerDataset) -> None:
        self.dataset = dataset
        self.number = next(_numbers)
        _alive[self.number] = self

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        raise NotImplementedError(_ON_COORDINATOR)


_alive: weakref.WeakValueDictionary[int, PerWorkerIterator] = weakref.WeakValueDictionary()


def is_used(number: int) -> bool:
    """Return whether an iterator may still be passed to functions."""
    return number in _alive


def kind_with(structure: jax.tree_util.PyTreeDef, arrays: tuple[ArrayKind, ...]) -> Kind:
    """Return the kind of an element with these arrays."""
    return Kind(structure, tuple((each.shape, dtype_named(each.dtype), None) for each in arrays))


class _NoVariables:
    """Refuses variables that are created."""

    num_replicas_in_sync = 1
    storage: Any = None

    def check_variable(self, variable: Any) -> None:
        raise ValueError(
            f"Creating variables in `dataset_fn` is not allowed: it creates {variable.path!r}. Workers call "
            "it, and have no variables."
        )


def _made_by(function: Callable[[], Any]) -> Dataset | DistributedDataset:
    code = getattr(function, "python_function", function)
    with no_stop_iteration("The dataset function", DatasetError), variables_owned_by(_NoVariables()):
        made = code()
    if not isinstance(made, Dataset | DistributedDataset):
        raise TypeError(
            f"The function given to create_per_worker_dataset must return a Dataset, it returned {made!r}."
        )
    return made


def _is_known(spec: TensorSpec) -> bool:
    return spec.shape is not None and None not in spec.shape


def _smallest(spec: TensorSpec) -> ArrayKind:
    return ArrayKind(tuple(size or 0 for size in spec.shape or ()), str(spec.dtype))
