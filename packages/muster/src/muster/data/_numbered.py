"""The elements of a pass over a dataset by their number, for workers that share the pass."""

import contextlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Self

from muster._errors import DatasetError
from muster._user_code import no_stop_iteration
from muster.data._iterator import Convert, begin_run, position_of
from muster.data.pipeline._handles import Stream, unstacked
from muster.data.pipeline._node import INFINITE, Node

# How many elements that were passed over stay at hand, not computed, should they be asked for after all.
_KEPT = 16


class NoElementError(IndexError):
    """A pass has no element of a number. No code of a user's raises it, as it might an IndexError."""


class NumberedElements:
    """Reads elements of one pass by their number, from 0.

    Elements that are passed over are not computed. An element far before the last one is reached from the
    start again. Not for use by several threads at the same time.

    Args:
        node: The pipeline to read.
        position: The ``position`` of any element of the pass; None begins a pass.
        seed: Seeds the shuffles without a seed; None seeds them at random.
        convert: As for `Dataset.iterator`.

    Raises:
        PositionError: `position` belongs to another pipeline.
    """

    def __init__(
        self,
        node: Node,
        position: Mapping[str, Any] | None = None,
        seed: int | None = None,
        convert: Convert | None = None,
    ):
        self._node = node
        self._convert = convert
        self._run, _ = begin_run(node, position, seed)
        self._stream: Stream | None = None
        self._next = 0  # the element that the stream has next
        self._kept: OrderedDict[int, Any] = OrderedDict()  # handles

    @property
    def position(self) -> dict[str, Any]:
        """The position of the first element, by which others begin the same pass."""
        return position_of(self._node, self._run, 0)

    def has(self, number: int) -> bool:
        """Return whether the pass has an element of this number; computes nothing."""
        known = self._node.cardinality
        if known >= 0 or known == INFINITE:
            return known < 0 or number < known
        return number < self._next or self._pass_to(number + 1)

    def read(self, number: int) -> Any:
        """Return an element.

        Raises:
            NoElementError: The pass has no element of this number.
            DatasetError: A user's function has raised StopIteration.
        """
        with no_stop_iteration("A function of the dataset", DatasetError):
            handles = self._handle_of(number)
            if handles is None:
                raise NoElementError(number)
            elements = unstacked(self._node.load(self._run, handles))
            (element,) = elements if self._convert is None else self._convert(elements)
            return element

    def close(self) -> None:
        """Close files and generators."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._run.stores.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _handle_of(self, number: int) -> Any:
        """Return the handle of an element, as several of one; None if there is no such element."""
        if number in self._kept:
            return self._kept[number]
        if number < self._next:
            self._reopen()
        if not self._pass_to(max(self._next, number - _KEPT)):
            return None
        with self._in_place():
            while self._next <= number:
                handles = self._opened().pull(1)
                if not len(handles):
                    return None
                self._kept[self._next] = handles
                self._next += 1
                while len(self._kept) > _KEPT + 1:
                    self._kept.popitem(last=False)
        return self._kept[number]

    def _pass_to(self, number: int) -> bool:
        """Pass over elements, so that the next one has this number; return whether there are as many."""
        with self._in_place():
            self._next += self._opened().skip(number - self._next)
        return self._next >= number

    @contextlib.contextmanager
    def _in_place(self) -> Iterator[None]:
        """Begin again after an error: the stream has passed over what it failed on."""
        try:
            yield
        except BaseException:
            self._reopen()
            raise

    def _opened(self) -> Stream:
        if self._stream is None:
            self._stream = self._node.open(self._run, ())
        return self._stream

    def _reopen(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._next = 0
        self._kept.clear()
