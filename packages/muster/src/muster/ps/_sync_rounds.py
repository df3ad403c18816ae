"""Rounds: synchronous steps, in which each server applies the mean of all workers' pushes."""

from collections.abc import Collection

# No server begins so many rounds before it is started again.
ROUNDS_OF_A_START = 1 << 40


class SyncRounds:
    """Knows who takes part in the round that is open, and when all of them have pushed.

    The server that keeps the global step begins a round, with the workers that ask for a step then. The other
    servers hear of it by its first push. So all of them agree on the members, and each sees by itself when
    one of these is gone.

    Attributes:
        number: The number of the last round that began, from 1.
        is_open: Whether it has not ended.
        members: The tasks that it began with, in order.
    """

    def __init__(self) -> None:
        self.number = 0
        self.is_open = False
        self.members: tuple[str, ...] = ()
        self._before = 0  # what the numbers of rounds that begin here exceed
        self._awaited: set[str] = set()
        self._pushed: set[str] = set()
        self._gone: set[str] = set()

    @property
    def is_over(self) -> bool:
        """True if the open round waits for no worker."""
        return self.is_open and not self._awaited

    @property
    def awaited(self) -> frozenset[str]:
        """The workers that have not pushed in the open round."""
        return frozenset(self._awaited) if self.is_open else frozenset()

    def holds(self, task: str) -> bool:
        """Return whether a worker has pushed in the open round, and so waits for its end."""
        return self.is_open and task in self._pushed

    def begin(self, tasks: Collection[str]) -> None:
        """Begin the next round."""
        self._open(max(self.number, self._before) + 1, tasks, tasks)

    def begin_after(self, number: int) -> None:
        """Let the rounds that begin here have higher numbers than this one."""
        self._before = number

    def follows(self, number: int) -> bool:
        """Return whether a round comes after the open one, which therefore has ended elsewhere."""
        return self.is_open and number > self.number

    def push(self, task: str, number: int, members: Collection[str]) -> bool:
        """Note a push, and return whether it counts: not in a round that has ended.

        Args:
            task: Who pushes.
            number: The number of the round for which it does.
            members: The members of that round.
        """
        self._gone.discard(task)
        if number > self.number:
            self._open(number, members, set(members) - self._gone)
        elif number < self.number or not self.is_open:
            return False
        self._awaited.discard(task)
        self._pushed.add(task)
        return True

    def end(self) -> None:
        """End the open round."""
        self.is_open = False

    def leave(self, task: str) -> None:
        """Wait no more for a worker, until it is heard from again."""
        self._gone.add(task)
        self._awaited.discard(task)

    def come(self, task: str) -> None:
        """Wait for a worker in the rounds that begin from now on."""
        self._gone.discard(task)

    def _open(self, number: int, members: Collection[str], awaited: Collection[str]) -> None:
        self.number, self.is_open, self.members = number, True, tuple(members)
        self._awaited, self._pushed = set(awaited), set()
