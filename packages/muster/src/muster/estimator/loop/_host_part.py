"""Prepare batches of a model_fn on the host: ids for columns, arrays for sparse tensors and for text."""

import contextlib
import logging
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from muster.data import RaggedTensor, SparseTensor, replaced
from muster.estimator._words import Passed, Words
from muster.estimator.loop._batch import StepBatch
from muster.feature_column import FeatureColumn, asking_for_host, leaf_keys, transform_features
from muster.program import (
    HostPlace,
    HostValue,
    HostWork,
    SparseRows,
    host_place,
    is_array_of_numbers,
)
from muster.program.variables import shared_with_step, sharing

_log = logging.getLogger(__name__)


@jax.tree_util.register_static
@dataclass(frozen=True)
class OnHost:
    """Stands in a batch for a value that only the host has.

    Attributes:
        key: Its name.
    """

    key: str


def for_step(batch: StepBatch) -> StepBatch:
    """Return a batch as a step gets it, without what the host keeps."""
    return batch._replace(kept={}) if batch.kept else batch


def without_given(batch: StepBatch) -> StepBatch:
    """Return a batch as a step gets it."""
    return batch._replace(given={key: OnHost(given_key(key)) for key in batch.given})


def given_key(key: str) -> str:
    """Return the name of a feature as the input_fn gave it."""
    return f"given[{key!r}]"


_FORWARDABLE = "keys of features to forward"


def forwarding(keys: Collection[str]) -> contextlib.AbstractContextManager[None]:
    """Let `forwarded` pass on features of these keys, in a ``with`` block that calls a model_fn."""
    return sharing(_FORWARDABLE, [key for key in keys if key])


def forwardable() -> Collection[str]:
    """Return the keys of the features that an input_fn gave, with those that the model_fn does not get."""
    return shared_with_step(_FORWARDABLE) or ()


def forwarded(key: str) -> Passed:
    """Return a prediction that is a feature as the input_fn gave it."""
    return Passed(given_key(key))


class HostPart:
    """Prepares features and labels that are no arrays of numbers, with which a step cannot compute.

    Attributes:
        columns: The feature columns that the model_fn has been seen to use, and whose ids the host finds.
        read: The keys of features that the model_fn reads itself, of those that are no arrays of numbers.
        left_out: The keys of features that no step gets.
        work: What it computes for the model_fn.
        passed: What predictions pass on of the batch, or of what the host computes of it, by names.
    """

    def __init__(self) -> None:
        self.passed: dict[str, HostPlace] = {}
        self._asks = False
        self.columns: list[FeatureColumn] = []
        self.read: set[str] = set()
        self.left_out: set[str] = set()
        self.work = HostWork()
        self._examples: dict[str, Any] = {}
        self._rows: int | None = None  # of the example of the last trace

    def concerns(self, batch: StepBatch, wide: Collection[str] = ()) -> bool:
        """Return whether a batch needs to be prepared, with integers that stay here: see `prepare`."""
        known = self.columns or self.work.places or self.work.wide or wide
        return bool(known) or not _is_numbers((batch.features, batch.labels))

    def prepare(self, features: Any, labels: Any, wide: Collection[str] = ()) -> StepBatch:
        """Return a batch for a step: of numbers, with what columns and the model_fn need.

        Args:
            features: The features.
            labels: The labels, or None.
            wide: The names of arrays of integers that a step cannot take, and that the host keeps.
        """
        values: dict[str, Any] = {}
        kept = features
        if isinstance(features, Mapping):
            of_columns = {key for column in self.columns for key in leaf_keys(column)}
            kept = {
                key: value
                for key, value in features.items()
                if key in self.read
                or _is_numbers(value)
                or (key not in of_columns and _is_sparse_matrix(value))
            }
            left_out = features.keys() - kept.keys()
            if self.columns:
                kept |= transform_features(features, self.columns)
            elif left_out - self.left_out:
                _log.info(
                    "Left out of batches, since steps compute with numbers: %s.", ", ".join(sorted(left_out))
                )
            self.left_out |= left_out
        batch = _without_values(StepBatch(kept, labels), values, {*wide, *self.work.wide})
        self._examples.update(values)
        return batch._replace(computed=self.work.computed(values | named(batch)), kept=_integers(values))

    def keep_integers(self, batch: StepBatch | None) -> bool:
        """Keep all 64-bit integers of features here, as if they did not fit; return whether that is new."""
        if batch is None:
            return False
        features = named(StepBatch(batch.features, None)).items()
        keys = {
            key
            for key, value in features
            if value.dtype.kind in "iu" and jax.dtypes.canonicalize_dtype(value.dtype) != value.dtype
        }
        new = not keys <= self.work.wide
        self.work.wide |= keys
        return new

    def widened(self, batch: StepBatch) -> StepBatch:
        """Return a batch without integers that have turned out not to fit: see `HostWork.wide`."""
        if not self.work.wide:
            return batch
        values = dict(batch.kept)
        features, labels, *_ = _without_values(
            StepBatch(batch.features, batch.labels), values, self.work.wide
        )
        made = batch._replace(features=features, labels=labels, kept=_integers(values))
        before = {key: value for key, value in batch.computed.items() if key not in self.work.wide}
        return made._replace(computed=before | self.work.computed(values | named(made)))

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Let columns of a model_fn that is traced in a ``with`` block ask for the host: `HostNeeded`."""
        self._asks = True
        try:
            yield
        finally:
            self._asks = False

    @contextlib.contextmanager
    def shown(self, batch: StepBatch, example: StepBatch) -> Iterator[StepBatch]:
        """Yield a batch as a model_fn sees it, which is traced on an example: see `HostElement`."""
        asking = asking_for_host() if self._asks else contextlib.nullcontext()
        with asking, self.work.traced(self._known(example), named(batch), batch.computed) as element:
            features, labels = replaced(batch[:2], OnHost, lambda each: element.value(each.key))
            yield StepBatch(features, labels)

    def passed_on(self, predictions: Any) -> Any:
        """Return predictions of a step that is traced, with `Passed` for what the host has of them."""

        def leaf(value: Any) -> Any:
            place = HostPlace(value.key) if isinstance(value, Passed) else host_place(value)
            if place is None:
                return value
            self.passed[place.key] = place
            return Passed(place.key)

        return jax.tree.map(
            leaf, predictions, is_leaf=lambda value: isinstance(value, Passed | HostValue | Words)
        )

    def like_example(self, batch: StepBatch) -> StepBatch:
        """Return a batch for a trace: with as many rows as the example has."""
        rows = self._rows
        if rows is None:
            return batch
        resized = jax.tree.map(
            lambda leaf: np.resize(leaf, (rows, *np.shape(leaf)[1:])) if np.ndim(leaf) else leaf, batch
        )
        return resized  # type: ignore[no-any-return]

    def values_passed(self, batch: StepBatch) -> Mapping[str, Any]:
        """Return what finds the values of `Passed` by their keys, for a batch as the input_fn gave it."""
        return _Passing(self.passed, batch)

    def _known(self, example: StepBatch) -> dict[str, Any]:
        """Return the values of an example by their keys, with those that no step gets."""
        numbers = named(example)
        rows = next((leaf.shape[0] for leaf in numbers.values() if leaf.shape), None)
        self._rows = rows if isinstance(rows, int) else None
        texts = {  # of batches that were prepared together, of which each has fewer rows
            key: value[:rows] if isinstance(value, np.ndarray) and isinstance(rows, int) else value
            for key, value in self._examples.items()
        }
        return texts | numbers

    def add(self, columns: Iterable[FeatureColumn]) -> bool:
        """Add columns that the model_fn uses; return whether one of them was not known."""
        new = [column for column in columns if column not in self.columns]
        self.columns += new
        return bool(new)

    def read_too(self, keys: Iterable[str]) -> bool:
        """Let the model_fn read features that are left out; return whether one of them was not known."""
        new = set(keys) - self.read
        self.read |= new
        self.left_out -= new
        return bool(new)


class _Passing(Mapping[str, Any]):
    """Finds values of a batch by the names of `HostPart.passed`."""

    def __init__(self, places: Mapping[str, HostPlace], batch: StepBatch) -> None:
        self._places = places
        features = batch.given[""] if [*batch.given] == [""] else batch.given
        leaves = jax.tree_util.tree_leaves_with_path(StepBatch(features, None), is_leaf=is_uneven)
        # What was computed of the features before the step; as the input_fn gave it, where it has the same.
        self._values = named(batch) | {_key(path): value for path, value in leaves}
        self._values |= {given_key(key): value for key, value in batch.given.items()}

    def __getitem__(self, key: str) -> Any:
        return self._places[key].value(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def named(batch: StepBatch) -> dict[str, Any]:
    """Return the arrays of a batch by their keys."""
    own = batch._replace(computed={}, given={}, kept={})
    return {_key(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(own)}


def _integers(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: v for key, v in values.items() if isinstance(v, np.ndarray) and v.dtype.kind in "iu"}


def _key(path: Any) -> str:
    return jax.tree_util.keystr(path).removeprefix(".")


def _without_values(batch: StepBatch, values: dict[str, Any], wide: Container[str]) -> StepBatch:
    """Return a batch with `OnHost` for what is no array of numbers, and add this to ``values``.

    Args:
        batch: The batch.
        values: Gets these values.
        wide: The keys of integers that a step cannot take.
    """

    def leaf(path: Any, value: Any) -> Any:
        if is_array_of_numbers(value) and _key(path) not in wide:
            return value
        if _is_sparse_matrix(value):
            return SparseRows.of(value)
        values[_key(path)] = value
        return OnHost(_key(path))

    made: StepBatch = jax.tree_util.tree_map_with_path(leaf, batch, is_leaf=is_uneven)
    return made


def _is_numbers(value: Any) -> bool:
    """Return whether a value is an array of numbers, or a structure of them."""
    return all(map(is_array_of_numbers, jax.tree.leaves(value, is_leaf=is_uneven)))


def is_uneven(value: Any) -> bool:
    """Return whether a value is ragged or sparse: its arrays have no axis of examples."""
    return isinstance(value, SparseTensor | RaggedTensor)


def _is_sparse_matrix(value: Any) -> bool:
    return (
        isinstance(value, SparseTensor)
        and len(value.shape) == 2
        and isinstance(value.plain_values, np.ndarray)
        and value.plain_values.dtype.kind in "biuf"
    )
