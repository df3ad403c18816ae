"""A worker's access to the parameter servers."""

from collections.abc import Sequence
from typing import Protocol

from muster.ps import Array


class Store(Protocol):
    """The parameter servers, as a worker reaches them."""

    @property
    def count(self) -> int:
        """The number of servers."""

    def pull(self, function: str, ids: Sequence[Sequence[Array]] = ()) -> list[list[Array]]:
        """Return what a function takes of each server, and rows of its tables."""

    def apply(
        self,
        function: str,
        closure: int,
        watermark: int,
        pushed: Sequence[Sequence[Array]],
        rows: Sequence[Sequence[tuple[Array, Sequence[Array]]]] = (),
    ) -> list[list[Array]]:
        """Push what a closure has computed for each server; return what the function takes then."""

    def close(self) -> None:
        """Close the connections."""
