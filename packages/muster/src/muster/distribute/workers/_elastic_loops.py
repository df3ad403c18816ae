"""Loops of steps of workers who come and go: what the workers know of a loop, and it of them."""

import secrets
from collections.abc import Callable
from typing import Any, Protocol

from muster._errors import MismatchError
from muster.cluster.roster import Roster
from muster.distribute.workers._workers import GiveState, HostArray, SingleWorker, Workers


class WorkersChangedError(Exception):
    """The workers have changed in the middle of a step, which is to be made again."""


class ReplicatedLoop(Protocol):
    """A loop of steps that all workers make: what a worker needs to know who joins them."""

    def steps_taken(self) -> int:
        """Return how many steps the state has; the same number on workers with the same state."""

    def give(self) -> tuple[Any, list[HostArray]] | None:
        """Return what a new worker needs before the next step, JSON and arrays; None if none can come."""


class LoopWorkers(SingleWorker):
    """A single worker with all virtual replicas: what a loop of the user's sees of workers that come and go.

    So its values are those of all replicas on every worker, and nothing is lost with one of them.

    Args:
        workers: The workers, who divide the work of its steps.
        roster: Takes their progress.
        replicas: The number of virtual replicas.
        steps: Their steps.
    """

    def __init__(self, workers: Workers, roster: Roster, replicas: int, steps: "LoopSteps") -> None:
        super().__init__(roster, workers.exchanged, replicas)
        self._workers = workers
        self._steps = steps

    @property
    def is_chief(self) -> bool:
        return self._workers.is_chief

    def common_seed(self) -> int | None:
        if (seed := self._steps.expected_seed) is None:
            seed = int(self._workers.all_gather_object(secrets.randbits(31))[0])
        self._steps.new_seed = seed
        return seed

    def drew(self, source: object, digest: Callable[[], str]) -> None:
        self._workers.drew(source, digest)


class LoopSteps:
    """The steps of loops of the user's, as a `ReplicatedLoop`: who comes joins when a step's batch is drawn.

    A program that comes is to go on from the state that its checkpoints have. So workers join where a step
    begins: when the first batch since the last step is drawn, from the data that the program reads first.
    Who joins checks that it has the same batch.

    Attributes:
        count: How many steps were taken.
        gives: Returns the state of the loop; None if nobody can join it.
        place: The number of the loop, among the places where others can join.
        digest: Returns a checksum of the batch of the step that begins, while others may join; else None.
        new_seed: The seed of the pass over the data that has begun last.
        expected_seed: That of the others, until this worker has drawn its first batch with them.
    """

    def __init__(self) -> None:
        self.count = 0
        self.gives: GiveState | None = None
        self.place = 0
        self.digest: Callable[[], str] | None = None
        self.new_seed: int | None = None
        self.expected_seed: int | None = None
        self._seed: int | None = None
        self._source: object = None
        self._drawn_at = -1
        self._expected: str | None = None

    def steps_taken(self) -> int:
        return self.count

    def begins_step(self, source: object, digest: Callable[[], str]) -> bool:
        """Return whether a batch is the first one of a step.

        Args:
            source: The data.
            digest: Returns a checksum of the batch that was drawn.

        Raises:
            MismatchError: This worker has joined others, and has another batch than they.
        """
        seed, self.new_seed = self.new_seed, None
        if self.gives is None:
            return False
        if self._source is None:
            self._source = source
        if source is not self._source:
            return False
        self._seed = self._seed if seed is None else seed
        expected, self._expected, self.expected_seed = self._expected, None, None
        if expected is not None and digest() != expected:
            raise MismatchError(
                "This worker has another batch than those whose loop it joins. The program has to go on from "
                "what its Checkpoint restores: skip what was trained on, as by dataset.skip(...) before the "
                "dataset is distributed, draw one batch for each step, and give shuffles and random numbers "
                "a seed."
            )
        is_first, self._drawn_at = self._drawn_at != self.count, self.count
        return is_first

    def require_same_batch(self) -> None:
        """Check that this worker, if it has joined others, has drawn the batch of their step.

        Raises:
            MismatchError: It takes a step without.
        """
        if self._expected is not None:
            raise MismatchError(
                "This worker has joined the loop of others, and takes a step before it draws a batch of the "
                "dataset that they draw from. Restore the Checkpoint just before the loop."
            )

    def give(self) -> tuple[Any, list[HostArray]] | None:
        if self.gives is None or self.digest is None:  # another has led those who come, and is lost
            return None
        state, arrays = self.gives()
        about = {"loop": state, "taken": self.count, "batch": self.digest(), "seed": self._seed}
        return about, arrays

    def take(self, about: dict[str, Any]) -> Any:
        """Take what another has given; return the state of the program."""
        self.count, self._expected, self.expected_seed = about["taken"], about["batch"], about["seed"]
        return about["loop"]
