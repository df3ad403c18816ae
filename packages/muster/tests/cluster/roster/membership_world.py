"""A world of workers, without sockets and clocks, in which everything may come late, break, stop and end."""

import dataclasses
import random
from collections import deque
from typing import Any

from muster.cluster import Task
from muster.cluster.roster._membership import Membership
from muster.cluster.roster._membership_events import (
    BecameReady,
    CameLate,
    EnterGroup,
    GiveUp,
    Group,
    LeaveStep,
    LinkBroken,
    Member,
    MemberGone,
    MemberPhase,
    MemberSeen,
    MembersMet,
    PublishRecord,
    StepLeft,
    TakesIn,
    TimePassed,
)


@dataclasses.dataclass
class Worker:
    """A process: its machine, and the steps that it takes.

    Attributes:
        step: The steps that are in its state; None while it has none.
        founded: The process that founded the group that its state goes back to.
        met: The steps that members of its group have told, since it entered the group.
        got: The members whose part of the step under way has come.
        inbox: What others have sent, in order, by sender.
        taken: The steps that it has taken by itself, and the epochs.
    """

    machine: Membership
    step: int | None = None
    founded: str = ""
    group: Group | None = None
    leaving: bool = False
    left: bool = False
    agreed: bool = False
    met: dict[Member, tuple[int, str] | None] = dataclasses.field(default_factory=dict)
    got: set[Member] = dataclasses.field(default_factory=set)
    early: list[tuple[Member, Any]] = dataclasses.field(default_factory=list)
    inbox: dict[Task, deque[tuple[Member, Any]]] = dataclasses.field(default_factory=dict)
    taken: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    asleep: bool = False
    gave_up: str = ""

    @property
    def own(self) -> Member:
        return self.machine.own

    def put(self, sender: Member, message: Any) -> None:
        self.inbox.setdefault(sender.task, deque()).append((sender, message))


class World:
    """Workers and the connections between them.

    Args:
        size: The number of workers that there may be.
        seed: Of what happens.
        minimum: The least number of workers in a step.

    Attributes:
        workers: Those that are up.
        now: The time, in seconds.
        records: How many records were sent.
        completed: For each step the epochs in which workers have completed it.
    """

    def __init__(self, size: int, seed: int, minimum: int = 1) -> None:
        self.random = random.Random(seed)
        self.tasks = tuple(Task("worker", index) for index in range(size))
        self.minimum = minimum
        self.workers: dict[Member, Worker] = {}
        self.cut: set[frozenset[Member]] = set()
        self.now = 0.0
        self.records = self.starts = 0
        self.completed: dict[int, set[int]] = {}
        self.newest: dict[Member, int] = {}  # the epoch in which each has completed a step last
        self.breaks = True
        self.excluded_steps: dict[Member, int] = {}

    def start(self, index: int) -> None:
        """Start a process of a task that has none."""
        self.starts += 1
        own = Member(self.tasks[index], f"run {self.starts}")
        worker = Worker(Membership(own, self.tasks, self.minimum, 5.0, 60.0, first_epoch=100 * self.starts))
        for other in self.workers.values():
            other.put(own, MemberSeen(own, worker.machine.record))
            worker.put(other.own, MemberSeen(other.own, other.machine.record))
        self.workers[own] = worker
        self.act(worker, worker.machine.start())
        self.tell(worker, TakesIn(True))
        self.tell(worker, BecameReady(founds=True))

    def end(self, own: Member) -> None:
        """End a process at once; others learn of it after what it has sent."""
        del self.workers[own]
        for other in self.workers.values():
            other.put(own, MemberGone(own, certain=True))
        self.cut = {pair for pair in self.cut if own not in pair}

    def part(self, one: Member, other: Member) -> None:
        """Let two workers lose sight of each other: neither knows whether the other has ended."""
        pair = frozenset((one, other))
        if pair in self.cut:
            return
        self.cut.add(pair)
        for a, b in ((one, other), (other, one)):
            queue = self.workers[a].inbox.get(b.task, ())
            self.workers[a].inbox[b.task] = deque(each for each in queue if each[0] != b)
            self.workers[a].put(b, MemberGone(b, certain=False))

    def join(self, one: Member, other: Member) -> None:
        """Let two workers see each other again."""
        self.cut.discard(frozenset((one, other)))
        for a, b in ((one, other), (other, one)):
            record = self.workers[b].machine.record
            self.workers[a].put(b, MemberSeen(b, record))

    def tell(self, worker: Worker, event: Any) -> None:
        self.act(worker, worker.machine.handle([event], self.now))

    def act(self, worker: Worker, actions: Any) -> None:
        for action in actions:
            match action:
                case PublishRecord(record):
                    for other in self.reachable(worker.own):
                        self.records += 1
                        other.put(worker.own, MemberSeen(worker.own, record))
                case LeaveStep():
                    worker.leaving = True
                case EnterGroup(group):
                    self.enter(worker, group)
                case GiveUp(reason):
                    worker.gave_up = reason

    def reachable(self, own: Member) -> list[Worker]:
        return [
            other
            for other in self.workers.values()
            if other.own != own and frozenset((own, other.own)) not in self.cut
        ]

    def enter(self, worker: Worker, group: Group) -> None:
        worker.group, worker.agreed = group, False
        worker.leaving = worker.left = False
        state = None if worker.step is None else (worker.step, worker.founded)
        worker.met, worker.got = {worker.own: state}, set()
        self.send(worker, ("hello", group.epoch, state))
        early, worker.early = worker.early, []
        for sender, message in early:
            self.receive(worker, sender, message)
        self.progress(worker)

    def send(self, worker: Worker, message: Any) -> None:
        assert worker.group is not None
        reachable = {other.own: other for other in self.reachable(worker.own)}
        for member in worker.group.members:
            if member in reachable:
                reachable[member].put(worker.own, message)

    def receive(self, worker: Worker, sender: Member, message: Any) -> None:
        """Take a message of the collectives; what is of a group that comes later waits."""
        kind, epoch, step = message
        epochs = worker.group.epoch if worker.group is not None else 0
        if epoch > epochs:
            worker.early.append((sender, message))
        elif epoch == epochs and not worker.leaving:
            if kind == "hello":
                worker.met[sender] = step
            elif worker.agreed and step == worker.step:
                worker.got.add(sender)
            else:
                worker.early.append((sender, message))  # of the step after the one under way
            self.progress(worker)

    def progress(self, worker: Worker) -> None:
        """Agree on the step when all have said hello; complete a step when all parts have come."""
        group = worker.group
        if group is None or worker.leaving or len(worker.met) < len(group.members):
            return
        if not worker.agreed:
            known = [state for state in worker.met.values() if state is not None]
            base, worker.founded = max(known, default=(0, group.members[0].run))
            assert {each for _, each in known} <= {worker.founded}
            if worker.step is not None:
                assert base - worker.step in (0, 1), (worker.own, base, worker.step)
                if base > worker.step:  # it gets the result of the step that others have completed
                    worker.taken.append((worker.step, group.epoch))
            worker.step, worker.agreed = base, True
            self.tell(worker, MembersMet(group))
            if worker.group is not group or worker.leaving:
                return
            self.begin(worker)
        elif len(worker.got) == len(group.members):
            assert worker.step is not None
            self.note(worker, worker.step, group.epoch)
            worker.taken.append((worker.step, group.epoch))
            worker.step += 1
            self.begin(worker)

    def begin(self, worker: Worker) -> None:
        worker.got = {worker.own}
        assert worker.group is not None
        self.send(worker, ("part", worker.group.epoch, worker.step))
        early, worker.early = worker.early, []
        for sender, message in early:
            self.receive(worker, sender, message)
        if len(worker.group.members) == 1 and self.random.random() < 0.9:
            worker.got = {worker.own}  # alone it goes on by itself, in `happen`

    def note(self, worker: Worker, step: int, epoch: int) -> None:
        """Check that workers of an older group than others' complete nothing but what was sent before."""
        newer = [
            each.own
            for each in self.workers.values()
            if each.founded == worker.founded and self.newest.get(each.own, 0) > epoch
        ]
        if newer:
            count = self.excluded_steps[worker.own] = self.excluded_steps.get(worker.own, 0) + 1
            assert count <= 1, f"{worker.own} trains on in epoch {epoch}, others are further: {newer}"
        self.newest[worker.own] = epoch
        self.completed.setdefault(step, set()).add(epoch)

    def awake(self) -> list[Worker]:
        return [each for each in self.workers.values() if not each.asleep and not each.gave_up]

    def happen(self) -> None:
        """Let one thing happen: something is delivered, or a worker leaves its step, or time passes."""
        self.now += 0.01
        awake = self.awake()
        if not awake:
            return
        worker = self.random.choice(awake)
        senders = [sender for sender, queue in worker.inbox.items() if queue]
        if self.look(worker):
            return
        if worker.leaving and not worker.left and self.random.random() < 0.3:
            worker.left = True
            self.tell(worker, StepLeft())
        elif senders:
            sender, message = worker.inbox[self.random.choice(senders)].popleft()
            if isinstance(message, tuple):
                self.receive(worker, sender, message)
            else:
                self.tell(worker, message)
        elif self.random.random() < 0.2:
            self.tell(worker, TimePassed())
        elif worker.machine.record.phase is MemberPhase.IN and worker.agreed and not worker.leaving:
            group = worker.group
            if group is not None and len(group.members) == 1:
                self.progress(worker)
            elif self.breaks and self.random.random() < 0.02:
                self.tell(worker, LinkBroken(group.epoch if group else 0))

    def happen_to_all(self) -> None:
        """Let all workers take what has come, as on a quick network: for many workers."""
        self.now += 0.05
        for worker in self.awake():
            machine = worker.machine
            self.look(worker)
            if worker.leaving and not worker.left:
                worker.left = True
                self.tell(worker, StepLeft())
            came = [each for queue in worker.inbox.values() for each in queue]
            worker.inbox.clear()
            events = [message for _, message in came if not isinstance(message, tuple)]
            self.act(worker, machine.handle(events or [TimePassed()], self.now))
            for sender, message in came:
                if isinstance(message, tuple):
                    self.receive(worker, sender, message)

    def settle_all(self, rounds: int) -> int:
        """Let rounds pass until all train together, and return how many records were sent since."""
        before = self.records
        for _ in range(rounds):
            self.happen_to_all()
            groups = {each.group for each in self.workers.values() if each.agreed and not each.leaving}
            if len(groups) == 1 and all(each.agreed for each in self.workers.values()):
                (group,) = groups
                if group is not None and {*group.members} == {*self.workers}:
                    return self.records - before
        raise AssertionError(f"they do not agree in {rounds} rounds")

    def look(self, worker: Worker) -> bool:
        """Let a worker notice a job that is under way, or become ready; return whether it did."""
        machine = worker.machine
        if machine.record.phase is MemberPhase.FOUNDING and any(
            each.base is not None for each in machine.present().values()
        ):
            worker.group = None
            self.tell(worker, CameLate())
        elif machine.record.phase is MemberPhase.STARTING:
            self.tell(worker, BecameReady())
        else:
            return False
        return True

    def settle(self, least: int = 3) -> None:
        """Let things happen until all that are up train together and have taken some steps."""
        self.breaks, goal = False, None
        for _ in range(100_000):
            self.happen()
            for worker in [each for each in self.workers.values() if each.gave_up]:
                self.end(worker.own)
            workers = list(self.workers.values())
            if not workers or all(each.group is None and each.own.task.index for each in workers):
                return  # nobody has a state, and nobody may found a group
            groups = {each.group for each in workers}
            if len(groups) == 1 and None not in groups and all(each.agreed for each in workers):
                (group,) = groups
                assert group is not None
                if set(group.members) == set(self.workers):
                    steps = [each.step or 0 for each in workers]
                    goal = goal if goal is not None else max(steps) + least
                    if min(steps) >= goal:
                        return
            else:
                goal = None
        raise AssertionError(
            "they do not agree:\n"
            + "\n".join(f"{each.own.run} {each.machine.record} {each.step}" for each in self.workers.values())
        )

    def check(self) -> None:
        """Check that each worker has taken every step once, from its first on."""
        for worker in self.workers.values():
            steps = [step for step, _ in worker.taken]
            assert steps == list(range(steps[0], steps[0] + len(steps))) if steps else True, worker.own
