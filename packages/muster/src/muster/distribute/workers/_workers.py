"""Workers: the processes that train together, and their collectives on the host."""

import atexit
import contextlib
import dataclasses
import functools
import itertools
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from muster import lifecycle
from muster._errors import MismatchError
from muster.cluster import TFConfig
from muster.cluster.roster import Roster, TaskState, training_tasks
from muster.net import copied_listener

HostArray = np.ndarray[Any, Any]

# Returns what a worker needs that takes over from this one: JSON, and arrays.
GiveState: TypeAlias = Callable[[], tuple[Any, list[HostArray]]]


@dataclasses.dataclass
class Exchanged:
    """Counts what a process exchanges with other tasks, outside of compiled programs.

    Attributes:
        secs: The seconds that it took, including waits for the others.
        nbytes: The bytes of the values, each counted once, of gradients say; not of what workers agree on.
    """

    secs: float = 0.0
    nbytes: int = 0


# The seconds that tasks may take to come up: two hours, as in TensorFlow.
START_SECS = 7200.0


@dataclasses.dataclass
class ReplicaShare:
    """The replicas of a job that a process computes. It changes where workers come and go.

    Args:
        first: The number of the first one; the others follow.
        count: How many there are here.
        total: How many there are in the job.
    """

    first: int = 0
    count: int = 1
    total: int = 1


class Workers(ABC):
    """The processes of a job that train together. All of them call the same collectives in the same order.

    Attributes:
        rank: The number of this worker, from 0. Worker 0 is the chief: it writes, and its values count.
        names: The names of all workers, in the order of their ranks.
        exchanged: What this process has exchanged with other tasks.
        share: The virtual replicas that this process computes now, of a job that divides a fixed number of
            them among the workers that are there; None if each worker has replicas of its own.
        comes_and_goes: Whether each may end, and others come, while the others go on.
        has_loop: Whether a loop of the user's reports its steps.
        has_joined_loop: Whether this worker has the state of a loop of the user's from others.
    """

    rank: int
    names: tuple[str, ...]
    comes_and_goes = has_loop = has_joined_loop = False
    share: ReplicaShare | None = None

    @property
    def in_loops(self) -> "Workers":
        """The processes as loops of users see them: one with all replicas, where they come and go."""
        return self

    def common_seed(self) -> int | None:
        """Return a new seed, the same on all workers; None for a single one, which may take any."""
        return None if self.size == 1 else int(self.all_gather_object(secrets.randbits(31))[0])

    def drew(self, source: object, digest: Callable[[], str]) -> None:  # noqa: B027
        """Note that a loop of the user's has drawn a batch: workers that come may join it now.

        Args:
            source: The data.
            digest: Returns a checksum of the batch.
        """

    def join_loop(self, give: GiveState) -> tuple[Any, list[HostArray]] | None:
        """Let workers that come join the loop that follows; return the others' state if this one joins them.

        Args:
            give: Returns the state of the loop, JSON and arrays, from which a program goes on.

        Returns:
            What ``give`` returns on another worker; None if this one begins, or if nobody ever joins.
        """
        return None

    def share_of(self, local_replicas: int) -> ReplicaShare:
        """Return the replicas of this process, if each has so many of its own; virtual ones, if there are."""
        if self.share is not None:
            return self.share
        return ReplicaShare(self.rank * local_replicas, local_replicas, self.size * local_replicas)

    @functools.cached_property
    def exchanged(self) -> Exchanged:
        return Exchanged()

    @property
    def size(self) -> int:
        """The number of workers."""
        return len(self.names)

    @property
    def is_chief(self) -> bool:
        """True if this is worker 0."""
        return self.rank == 0

    @abstractmethod
    def all_gather_object(self, value: Any) -> list[Any]:
        """Return the JSON values of all workers, by rank."""

    @abstractmethod
    def all_gather(self, array: HostArray) -> list[HostArray]:
        """Return the arrays of all workers, by rank; dtypes are equal, shapes may differ."""

    @abstractmethod
    def all_reduce(self, arrays: Sequence[HostArray]) -> list[HostArray]:
        """Return the sums of flat arrays over the workers, equal on all of them bit for bit.

        Args:
            arrays: Flat arrays, of the same lengths and dtypes on every worker.
        """

    def sum_terms(self, terms: Sequence[Sequence[HostArray]]) -> list[HostArray]:
        """Return the sums of flat arrays over the replicas of all workers.

        Args:
            terms: For each replica of this worker the arrays, of equal lengths and dtypes everywhere.
        """
        (term,) = terms
        return self.all_reduce(term)

    @abstractmethod
    def broadcast(self, arrays: Sequence[HostArray]) -> list[HostArray]:
        """Return the chief's arrays.

        Args:
            arrays: Arrays of the same shapes and dtypes on every worker.
        """

    def barrier(self, name: str) -> None:
        """Wait until all workers have come to this point."""
        self.all_gather_object(name)

    def require_equal(self, subject: str, values: Sequence[str]) -> None:
        """Check that all workers have the same texts.

        Args:
            subject: What the texts describe, in the plural, for the message.
            values: The texts of this worker.

        Raises:
            MismatchError: Two workers differ. All workers raise it, and it names the two and the texts.
        """
        first, *rest = self.all_gather_object(list(values))
        for name, others in zip(self.names[1:], rest, strict=True):
            for at, (ours, theirs) in enumerate(itertools.zip_longest(first, others, fillvalue="nothing")):
                if ours != theirs:
                    raise MismatchError(
                        f"The {subject} of {self.names[0]} and {name} differ: number {at} is {ours} in one, "
                        f"{theirs} in the other. All workers must run the same program on data of the same "
                        "structure."
                    )

    def note_program(self, shapes: str, text: str) -> None:  # noqa: B027
        """Note what this worker has compiled: workers that join others have to run the same.

        Args:
            shapes: The shapes of its arguments.
            text: The program, or what stands for it.
        """

    @property
    def reporter(self) -> Callable[..., None] | None:
        """A function that reports fields of ``cluster.Progress`` to other tasks and the launcher, or None."""
        return None

    @contextlib.contextmanager
    def supervised(self, start_secs: float = START_SECS, *, doing: str = "a step") -> Iterator[None]:
        """End all workers if an error leaves the block.

        Args:
            start_secs: How long a worker may keep the others waiting before its first step, in seconds.
            doing: What the block is, for messages, such as ``fit``.
        """
        yield

    @contextlib.contextmanager
    def reporting(self, state: TaskState) -> Iterator[None]:
        """Report a state while the block runs; the others wait for a task that evaluates or saves.

        Args:
            state: The state of this task.
        """
        yield

    def end_early(self, rank: int, number: int) -> None:
        """Agree with all workers to end now; after this an interrupt counts as no failure.

        Args:
            rank: The worker that got a signal.
            number: The signal.
        """
        self.barrier("interrupted")


class SingleWorker(Workers):
    """The only worker that it knows of.

    Args:
        roster: Answers who asks how it fares; None for that of `lone_roster`, if there is one.
        exchanged: What it exchanges with tasks that are no workers; None for nothing.
        virtual_replicas: The number of virtual replicas, all of which it computes; None without any.
    """

    rank = 0
    names = ("worker 0",)

    def __init__(
        self,
        roster: Roster | None = None,
        exchanged: Exchanged | None = None,
        virtual_replicas: int | None = None,
    ) -> None:
        if virtual_replicas is not None:
            self.share = ReplicaShare(0, virtual_replicas, virtual_replicas)
        self._known_roster = roster
        if exchanged is not None:
            self.exchanged = exchanged

    @property
    def _roster(self) -> Roster | None:
        return self._known_roster or lone_roster()

    @property
    def reporter(self) -> Callable[..., None] | None:
        return None if self._roster is None else self._roster.report

    @contextlib.contextmanager
    def supervised(self, start_secs: float = START_SECS, *, doing: str = "a step") -> Iterator[None]:
        with self.reporting(TaskState.STARTING):
            yield

    @contextlib.contextmanager
    def reporting(self, state: TaskState) -> Iterator[None]:
        with contextlib.nullcontext() if self._roster is None else self._roster.reporting(state):
            yield

    def sum_terms(self, terms: Sequence[Sequence[HostArray]]) -> list[HostArray]:
        return add_terms(terms)

    def all_gather_object(self, value: Any) -> list[Any]:
        return [value]

    def all_gather(self, array: HostArray) -> list[HostArray]:
        return [array]

    def all_reduce(self, arrays: Sequence[HostArray]) -> list[HostArray]:
        return list(arrays)

    def broadcast(self, arrays: Sequence[HostArray]) -> list[HostArray]:
        return list(arrays)


def add_terms(terms: Sequence[Sequence[HostArray]]) -> list[HostArray]:
    """Add the arrays of terms, one term after the other."""
    first, *rest = terms
    if not rest:
        return list(first)
    sums = [np.add(*two) for two in zip(first, rest[0], strict=True)]
    for term in rest[1:]:
        for place, array in zip(sums, term, strict=True):
            np.add(place, array, out=place)
    return sums


@functools.cache
def lone_roster() -> Roster | None:
    """Return what answers the launcher of a job of one worker, in this process; None if that is none.

    The tasks of other jobs have a roster of the strategy by which they join each other.
    """
    if (descriptor := os.environ.get("MUSTER_LISTEN_FD")) is None or "MUSTER_VIRTUAL_REPLICAS" in os.environ:
        return None
    config = TFConfig.from_environ(os.environ)
    if not config.cluster or training_tasks(config.cluster) != (config.task,):
        return None
    environ = {**os.environ, "MUSTER_LISTEN_FD": copied_listener(descriptor)}
    roster = Roster.from_environ(environ, config.cluster, config.task, peers=())
    if not lifecycle.at_block_end(functools.partial(_forget_lone_roster, roster)):
        atexit.register(roster.close)
    return roster


def _forget_lone_roster(roster: Roster, error: BaseException | None) -> None:
    roster.close()
    lone_roster.cache_clear()  # the process may take part in another job
