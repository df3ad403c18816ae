"""The batches that a call of a function draws from the iterators among its arguments."""

import contextvars
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from muster._errors import OutOfRangeError
from muster.data import Optional
from muster.distribute.input._distributed_dataset import DistributedIterator
from muster.distribute.replicas._values import PerReplica, ReplicaKind, is_array, is_leaf

# The shape and dtype of an array, and what tells it apart as a ``PerReplica``; None if it is none.
_ArrayKind = tuple[tuple[int, ...], np.dtype[Any], ReplicaKind | None]


class Kind(NamedTuple):
    """Identifies batches that share a trace: a function is traced anew for each kind.

    Attributes:
        structure: The structure of the batch.
        arrays: The shape and dtype of each array, and its kind as a ``PerReplica``, whose shape begins with
            the number of replicas.
    """

    structure: jax.tree_util.PyTreeDef
    arrays: tuple[_ArrayKind, ...]

    def whole(self) -> "Kind":
        """Return the kind of the same batch, but that each replica has all rows of it if it is uneven."""
        return self._replace(arrays=tuple(map(_whole, self.arrays)))


class DrawnBatch(NamedTuple):
    """A batch that was drawn from an iterator, or the end of the iterator.

    Attributes:
        source: The number of the iterator.
        optional: Whether the function drew it by ``get_next_as_optional``, so that it may be missing.
        batch: The batch.
        kind: The kind of the batch; None if it is missing.
        leaves: The arrays of the batch.
        begin: The number of arrays in the batches that the call drew before.
    """

    source: int
    optional: bool
    batch: Optional
    kind: Kind | None
    leaves: list[Any]
    begin: int


@dataclass
class DrawBranch:
    """A node of the tree that leads to the compiled calls of a function with iterators among its arguments.

    The kind of each batch that is drawn says where to go on.

    Attributes:
        source: The number of the iterator that it draws from next.
        optional: Whether it draws by ``get_next_as_optional``.
        then: The next branch, or the call, by the kind of the batch; the key None is the end of data.
    """

    source: int
    optional: bool
    then: dict[Kind | None, Any] = field(default_factory=dict)


class RecordedDraws(Protocol):
    """Draws the batches that a function takes while it is recorded."""

    def record(self) -> None:
        """Begin to record the function, maybe again."""

    def draw(self, source: int, optional: bool) -> DrawnBatch:
        """Draw the next batch of an iterator, by its number; it may be missing if it is optional."""

    def end_recording(self) -> None:
        """End the recording."""


class Draws:
    """Draws the batches of one call of a function in order; gives them back to the iterators if it fails.

    Args:
        sources: The distinct iterators among the arguments.

    Attributes:
        made: The draws of the call so far.
    """

    def __init__(self, sources: Sequence[DistributedIterator]) -> None:
        self._sources = sources
        self._recording = False
        self._ahead: list[DrawnBatch] = []
        self._missing: OutOfRangeError | None = None
        self.made: list[DrawnBatch] = []

    def draw(self, source: int, optional: bool) -> DrawnBatch:
        """Draw the next batch of an iterator.

        Args:
            source: The number of the iterator.
            optional: Whether the batch may be missing.

        Raises:
            OutOfRangeError: It is missing, and may not be.
        """
        found = next((at for at, draw in enumerate(self._ahead) if draw.source == source), None)
        if found is not None:
            batch = self._ahead.pop(found).batch
        elif self._recording:
            batch = read(self._sources[source])
        else:
            batch = self._sources[source].get_next_as_optional()
        if not (optional or batch.has_value()):
            self._missing = out_of_range(len(self._batches(source)))
            raise self._missing
        kind, leaves = _parts_of(batch.get_value()) if batch.has_value() else (None, [])
        begin = self.made[-1].begin + len(self.made[-1].leaves) if self.made else 0
        self.made.append(DrawnBatch(source, optional, batch, kind, leaves, begin))
        return self.made[-1]

    def leaves(self) -> list[Any]:
        """Return the arrays of all batches, in the order in which they were drawn."""
        return [leaf for draw in self.made for leaf in draw.leaves]

    @property
    def per_replica(self) -> list[bool]:
        """True if each of these arrays is a ``PerReplica``."""
        return [isinstance(leaf, PerReplica) for leaf in self.leaves()]

    def record(self) -> None:
        """Begin to trace the function, maybe again: its draws return the batches drawn so far once more."""
        self._recording, self._missing = True, None
        self._ahead, self.made = [*self.made, *self._ahead], []

    def end_recording(self) -> None:
        """End the tracing, and give back the batches that the function did not take.

        Raises:
            OutOfRangeError: A batch was missing, and the function caught the error, which it could not do in
                later calls, since those are compiled.
        """
        if self._missing is not None:
            raise self._missing
        taken, self.made = self.made, []
        self.give_back()
        self.made = taken

    def give_back(self) -> None:
        """Give all batches back to the iterators."""
        for number, source in enumerate(self._sources):
            if batches := self._batches(number):
                source.give_back(batches)
        self.made, self._ahead = [], []

    def _batches(self, source: int) -> list[Any]:
        draws = [*self.made, *self._ahead]
        return [draw.batch.get_value() for draw in draws if draw.source == source and draw.batch.has_value()]


def read(source: DistributedIterator) -> Optional:
    """Return the next batch, if there is one.

    It is read as if nothing was being traced: the code that reads and maps data is no part of the program.
    """
    with jax.core.eval_context():
        return contextvars.Context().run(source.get_next_as_optional)


def out_of_range(left: int) -> OutOfRangeError:
    """Return the error of a call that takes more batches than the ``left`` of an iterator."""
    return OutOfRangeError(
        f"End of sequence: the function takes more batches than the {left} that are left. They stay, to be "
        "drawn one by one."
        if left
        else "End of sequence: no batch is left."
    )


def _parts_of(batch: Any) -> tuple[Kind, list[Any]]:
    """Return the kind of a batch, and its arrays."""
    leaves, structure = jax.tree.flatten(batch, is_leaf=is_leaf)
    return Kind(structure, tuple(map(_array_kind_of, leaves))), leaves


def _whole(array: _ArrayKind) -> _ArrayKind:
    shape, dtype, per = array
    if per is None or per.sizes is None or not per.has_rows:
        return array
    return (shape[0], sum(per.sizes), *shape[2:]), dtype, ReplicaKind(replicated=True)


def _array_kind_of(leaf: Any) -> _ArrayKind:
    if isinstance(leaf, PerReplica):
        return leaf.data.shape, leaf.data.dtype, leaf.kind
    if not is_array(leaf):
        raise TypeError(f"The batches that a function draws must be made of arrays, got {leaf!r}.")
    return leaf.shape, leaf.dtype, None
