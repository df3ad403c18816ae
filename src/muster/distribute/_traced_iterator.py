"""``next`` inside of a function: what is drawn from an iterator becomes arguments of the program."""

import contextvars
from collections.abc import Sequence
from typing import Any, NoReturn

import jax

from muster._errors import OutOfRangeError, TraceError
from muster.distribute._distributed_dataset import DistributedIterator
from muster.distribute._values import PerReplica, is_array, is_leaf
from muster.program import unknown

Array = Any

# Of an array: its shape and dtype on a replica, whether replicas have their own, whether only one counts.
_Kind = tuple[tuple[int, ...], Any, bool, bool]


class EagerIterator:
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
        return self.get_next()

    def get_next(self) -> Any:
        """The next batch.

        Raises:
            OutOfRangeError: There is none.
        """
        if self._next == len(self._batches):
            self._batches.append(_read(self._source, self._batches))
        self._next += 1
        return self._batches[self._next - 1]


class TracedIterator:
    """An iterator in a function that is being traced.

    While the function is recorded, each ``next`` draws a batch, for its shapes. From then on as many are
    drawn before every call, and the program takes their arrays.

    Args:
        source: the iterator that the function is recorded with.
        drawn: what was drawn from it before.

    Attributes:
        batches: what the recording drew, for the first call.
    """

    def __init__(self, source: DistributedIterator, drawn: Sequence[Any]) -> None:
        self._source = source
        self._before = list(drawn)
        self._recording = True
        self._kinds: list[tuple[list[_Kind], Any]] = []
        self._arrays: list[Array] = []
        self._next = 0
        self.batches: list[Any] = []

    @property
    def count(self) -> int:
        """How many batches the function draws."""
        return len(self._kinds)

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
        return self.get_next()

    def get_next(self) -> Any:
        """The next batch, its arrays traced.

        Raises:
            OutOfRangeError: There is none, while the function is recorded.
        """
        place, self._next = self._next, self._next + 1
        if self._recording:
            self._record()
            arrays = [unknown(shape, dtype) for shape, dtype, _, _ in self._kinds[place][0]]
        else:
            arrays = self._arrays[sum(len(kinds) for kinds, _ in self._kinds[:place]) :]
        kinds, structure = self._kinds[place]
        pairs = zip(arrays, kinds, strict=False)
        values = [PerReplica(array, whole) if own else array for array, (_, _, own, whole) in pairs]
        return jax.tree.unflatten(structure, values)

    def get_next_as_optional(self) -> NoReturn:
        """Not in a traced function, which takes as many batches in every call.

        Raises:
            TraceError: always.
        """
        raise TraceError(
            "Whether an iterator has a next batch cannot be asked in a traced function, which takes as many "
            "batches in every call. Ask outside of it, or catch OutOfRangeError, before which nothing has "
            "changed."
        )

    def _record(self) -> None:
        """Draw a batch, and learn its kind."""
        batch = self._before.pop(0) if self._before else _read(self._source, self.batches)
        self.batches.append(batch)
        leaves, structure = jax.tree.flatten(batch, is_leaf=is_leaf)
        self._kinds.append(([_kind_of(leaf) for leaf in leaves], structure))


def draw(iterators: Sequence[DistributedIterator], counts: Sequence[int]) -> list[list[Any]]:
    """The next batches of some iterators, so many of each.

    Raises:
        OutOfRangeError: One has fewer; then all have what they had.
    """
    drawn: list[list[Any]] = []
    for iterator, count in zip(iterators, counts, strict=True):
        drawn.append([])
        for _ in range(count):
            try:
                drawn[-1].append(next(iterator))
            except StopIteration:
                for earlier, batches in zip(iterators, drawn[:-1], strict=False):
                    earlier.give_back(batches)
                raise out_of_range(iterator, drawn[-1]) from None
    return drawn


def _read(source: DistributedIterator, before: Sequence[Any]) -> Any:
    """The next batch, after some that were drawn for the same call.

    It is read as if nothing was being traced: what reads and maps the data is no part of the program.
    """
    try:
        with jax.core.eval_context():
            return contextvars.Context().run(next, source)
    except StopIteration:
        raise out_of_range(source, before) from None


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
