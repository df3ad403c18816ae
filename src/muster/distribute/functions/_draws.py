"""What a call of a function draws from the iterators among its arguments."""

import contextvars
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax

from muster._errors import OutOfRangeError
from muster.data import Optional
from muster.distribute.input._distributed_dataset import DistributedIterator
from muster.distribute.replicas._values import PerReplica, is_array, is_leaf

# Of an array: its shape and dtype, whether replicas have their own, whether only the first one's counts.
_ArrayKind = tuple[tuple[int, ...], Any, bool, bool]


class Kind(NamedTuple):
    """What tells batches apart for which a function is traced anew.

    Attributes:
        structure: of the batch.
        arrays: of each of its arrays, shape and dtype, whether replicas have their own, and whether only the
            first one counts. The shape of one of which replicas have their own begins with their number.
    """

    structure: Any
    arrays: tuple[_ArrayKind, ...]


class Draw(NamedTuple):
    """A batch that was drawn, or that was missing.

    Args:
        place: from which of the iterators.
        asks: whether the function asks if there is one.
        batch: what was drawn.
        kind: of the batch; None if it is missing.
        leaves: the batch's arrays.
        begin: where these begin among those of all that the call draws.
    """

    place: int
    asks: bool
    batch: Optional
    kind: Kind | None
    leaves: list[Any]
    begin: int


@dataclass
class Branch:
    """What a function does next on its way to a call: it draws.

    Args:
        place: from which of the iterators.
        asks: whether the function asks if there is a batch.
        then: what follows, by the batch's kind; None stands for the end.
    """

    place: int
    asks: bool
    then: dict[Kind | None, Any] = field(default_factory=dict)


class Draws:
    """What one call of a function draws, in order, and gives back if it comes to nothing.

    Args:
        sources: the iterators, each once.

    Attributes:
        made: what the call has drawn so far.
    """

    def __init__(self, sources: Sequence[DistributedIterator]) -> None:
        self._sources = sources
        self._recording = False
        self._ahead: list[Draw] = []
        self._missing: OutOfRangeError | None = None
        self.made: list[Draw] = []

    def draw(self, place: int, asks: bool) -> Draw:
        """Draw the next batch.

        Args:
            place: from which of the iterators.
            asks: whether the function asks if there is one.

        Raises:
            OutOfRangeError: It does not, and there is none.
        """
        found = next((at for at, draw in enumerate(self._ahead) if draw.place == place), None)
        if found is not None:
            batch = self._ahead.pop(found).batch
        elif self._recording:
            batch = read(self._sources[place])
        else:
            batch = self._sources[place].get_next_as_optional()
        if not (asks or batch.has_value()):
            self._missing = out_of_range(len(self._batches(place)))
            raise self._missing
        kind, leaves = _parts_of(batch.get_value()) if batch.has_value() else (None, [])
        begin = self.made[-1].begin + len(self.made[-1].leaves) if self.made else 0
        self.made.append(Draw(place, asks, batch, kind, leaves, begin))
        return self.made[-1]

    def leaves(self) -> list[Any]:
        """The arrays of all batches, in the order in which they were drawn."""
        return [leaf for draw in self.made for leaf in draw.leaves]

    @property
    def per_replica(self) -> list[bool]:
        """Of which of these arrays replicas have their own."""
        return [isinstance(leaf, PerReplica) for leaf in self.leaves()]

    def record(self) -> None:
        """Begin to record the function, or begin anew: to it, what was drawn is yet to come."""
        self._recording, self._missing = True, None
        self._ahead, self.made = [*self.made, *self._ahead], []

    def recorded(self) -> None:
        """End the recording; what it did not take goes back.

        Raises:
            OutOfRangeError: The function took a batch for granted that was missing, and caught this error.
                In later calls it could not, so it is the caller's in this one, too.
        """
        if self._missing is not None:
            raise self._missing
        taken, self.made = self.made, []
        self.give_back()
        self.made = taken

    def give_back(self) -> None:
        """Let the iterators have all batches again."""
        for place, source in enumerate(self._sources):
            if batches := self._batches(place):
                source.give_back(batches)
        self.made, self._ahead = [], []

    def _batches(self, place: int) -> list[Any]:
        draws = [*self.made, *self._ahead]
        return [draw.batch.get_value() for draw in draws if draw.place == place and draw.batch.has_value()]


def read(source: DistributedIterator) -> Optional:
    """The next batch, if there is one.

    It is read as if nothing was being traced: what reads and maps the data is no part of the program.
    """
    with jax.core.eval_context():
        return contextvars.Context().run(source.get_next_as_optional)


def out_of_range(left: int) -> OutOfRangeError:
    """The error of a call that takes more batches than an iterator has left."""
    return OutOfRangeError(
        f"End of sequence: the function takes more batches than the {left} that are left. They stay, to be "
        "drawn one by one."
        if left
        else "End of sequence: no batch is left."
    )


def _parts_of(batch: Any) -> tuple[Kind, list[Any]]:
    """The kind of a batch, and its arrays."""
    leaves, structure = jax.tree.flatten(batch, is_leaf=is_leaf)
    return Kind(structure, tuple(map(_array_kind_of, leaves))), leaves


def _array_kind_of(leaf: Any) -> _ArrayKind:
    if isinstance(leaf, PerReplica):
        return leaf.data.shape, leaf.data.dtype, True, leaf.replicated
    if not is_array(leaf):
        raise TypeError(f"The batches that a function draws must be made of arrays, got {leaf!r}.")
    return leaf.shape, leaf.dtype, False, False
