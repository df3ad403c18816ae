"""``next`` inside of a function: what is drawn from an iterator becomes arguments of the program."""

import contextvars
import itertools
from collections.abc import Sequence
from typing import Any

import jax

from muster._errors import OutOfRangeError, TraceError
from muster.data import GetNext, Optional
from muster.distribute._distributed_dataset import DistributedIterator
from muster.distribute._values import PerReplica, is_array, is_leaf
from muster.program import unknown

Array = Any

# Of an array: its shape and dtype on a replica, whether replicas have their own, whether only one counts.
_Kind = tuple[tuple[int, ...], Any, bool, bool]


class EagerIterator(GetNext):
    """An iterator in a function that runs untraced, and may run again on the same batches.

    Args:
        source: the iterator that the function was called with.
    """

    def __init__(self, source: DistributedIterator) -> None:
        self._source = source
        self._batches: list[Any] = []
        self._next = 0

    def begin(self) -> "EagerIterator":
        """Begin a run of the function."""
        self._next = 0
        return self

    def __iter__(self) -> "EagerIterator":
        return self

    def __next__(self) -> Any:
        following = self.get_next_as_optional()
        if not following.has_value():
            raise out_of_range(self._source, self._batches)
        return following.get_value()

    def get_next_as_optional(self) -> Optional:
        """The next batch, or at the end an Optional without a value."""
        if self._next == len(self._batches):
            read = _read(self._source)
            if not read.has_value():
                return read
            self._batches.append(read.get_value())
        self._next += 1
        return Optional((self._batches[self._next - 1],))


class TracedIterator(GetNext):
    """An iterator in a function that is being traced.

    While the function is recorded, each ``next`` draws a batch, for its shapes. From then on as many are
    drawn before every call, and the program takes their arrays. Where the function asked whether there is one
    and there was none, the program is that of the end of the data.

    Args:
        source: the iterator that the function is recorded with.
        drawn: what was drawn from it before.

    Attributes:
        batches: what the recording drew, for the first call.
        asked: of each of them, whether the function asked if there is one.
        ended: whether it asked once more, and there was none.
    """

    def __init__(self, source: DistributedIterator, drawn: Sequence[Any]) -> None:
        self._source = source
        self._before = list(drawn)
        self._recording = True
        self._kinds: list[tuple[list[_Kind], Any]] = []
        self._arrays: list[Array] = []
        self._next = 0
        self.batches: list[Any] = []
        self.asked: list[bool] = []
        self.ended = False

    @property
    def draws(self) -> tuple[bool, ...]:
        """What `draw` is to draw for such a call: of each batch, whether it may be missing."""
        return (*self.asked, True) if self.ended else tuple(self.asked)

    @property
    def per_replica(self) -> list[bool]:
        """Of which of the arrays of these batches replicas have their own."""
        return [own for kinds, _ in self._kinds for _, _, own, _ in kinds]

    def recorded(self) -> None:
        """End the recording; what it did not need goes back."""
        self._recording = False
        if self._before:
            self._source.give_back(self._before)

    def begin(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """Begin a run on the arrays of its batches; what follows them is another iterator's, and returned."""
        own = len(self.per_replica)
        self._next, self._arrays = 0, list(arrays[:own])
        return arrays[own:]

    def __iter__(self) -> None:
        raise TraceError(
            "A loop over an iterator in a traced function would make one program of all of its batches. Loop "
            "outside of the function, or call `next` as often as one call is to take steps."
        )

    def __next__(self) -> Any:
        """The next batch, its arrays traced.

        Raises:
            OutOfRangeError: There is none, while the function is recorded.
        """
        if self._recording and not self._record(asked=False):
            raise out_of_range(self._source, self.batches)
        return self._traced()

    def get_next_as_optional(self) -> Optional:
        """The next batch, its arrays traced, or at the end an Optional without a value."""
        if self._recording:
            self.ended = not self._record(asked=True)
        return Optional() if self._next == len(self._kinds) else Optional((self._traced(),))

    def _record(self, asked: bool) -> bool:
        """Draw a batch, and learn its kind; say whether there was one."""
        read = Optional((self._before.pop(0),)) if self._before else _read(self._source)
        if not read.has_value():
            return False
        batch = read.get_value()
        self.batches.append(batch)
        self.asked.append(asked)
        leaves, structure = jax.tree.flatten(batch, is_leaf=is_leaf)
        self._kinds.append(([_kind_of(leaf) for leaf in leaves], structure))
        return True

    def _traced(self) -> Any:
        place, self._next = self._next, self._next + 1
        kinds, structure = self._kinds[place]
        if self._recording:
            arrays = [unknown(shape, dtype) for shape, dtype, _, _ in kinds]
        else:
            arrays = self._arrays[sum(len(kinds) for kinds, _ in self._kinds[:place]) :]
        pairs = zip(arrays, kinds, strict=False)
        values = [PerReplica(array, whole) if own else array for array, (_, _, own, whole) in pairs]
        return jax.tree.unflatten(structure, values)


def draw(
    iterators: Sequence[DistributedIterator], draws: Sequence[Sequence[bool]]
) -> tuple[list[list[Any]], tuple[bool, ...]]:
    """Draw the next batches of some iterators.

    Args:
        iterators: to draw from.
        draws: from each, of each batch, whether it may be missing.

    Returns:
        the batches of each, and of which of them one is missing: then it has no more.

    Raises:
        OutOfRangeError: One that may not is missing; then all iterators have what they had.
    """
    drawn: list[list[Any]] = []
    ended = []
    for iterator, may_be_missing in zip(iterators, draws, strict=True):
        batches = list(itertools.islice(iterator, len(may_be_missing)))
        drawn.append(batches)
        ended.append(len(batches) < len(may_be_missing))
        if ended[-1] and not may_be_missing[len(batches)]:
            for earlier, given in zip(iterators, drawn[:-1], strict=False):
                earlier.give_back(given)
            raise out_of_range(iterator, batches)
    return drawn, tuple(ended)


def _read(source: DistributedIterator) -> Optional:
    """The next batch, if there is one.

    It is read as if nothing was being traced: what reads and maps the data is no part of the program.
    """
    with jax.core.eval_context():
        return contextvars.Context().run(source.get_next_as_optional)


def out_of_range(iterator: DistributedIterator, left: Sequence[Any]) -> OutOfRangeError:
    """The error of an iterator that has but these batches left, which it gets back."""
    iterator.give_back(left)
    return OutOfRangeError(
        f"End of sequence: the function takes more batches than the {len(left)} that are left. They stay, to "
        "be drawn one by one."
        if left
        else "End of sequence: no batch is left."
    )


def _kind_of(leaf: Any) -> _Kind:
    if isinstance(leaf, PerReplica):
        return leaf.data.shape[1:], leaf.data.dtype, True, leaf.whole
    if not is_array(leaf):
        raise TypeError(f"The batches that a function draws must be made of arrays, got {leaf!r}.")
    return leaf.shape, leaf.dtype, False, False
