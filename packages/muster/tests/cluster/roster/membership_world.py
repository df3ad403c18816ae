"""A world of workers, without sockets and clocks, in which everything may come late, break, stop and end."""

import dataclasses
import math
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

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

# The least number of workers at which one takes all that has come at once. Below, it comes one by one.
_MANY = 16


class State(NamedTuple):
    """What a worker has trained.

    Attributes:
        step: The number of steps in it.
        chain: What is made of the steps and the epochs in which they were completed, in order.
        before: The chain before the last of them.
        founded: The process that founded the group to which it goes back.
    """

    step: int
    chain: int
    before: int
    founded: str

    def after(self, epoch: int) -> "State":
        """Return the state after one more step."""
        return State(self.step + 1, hash((self.chain, self.step, epoch)), self.chain, self.founded)


@dataclasses.dataclass
class Message:
    """What members of a group send each other besides records.

    Attributes:
        sender: The number of the process.
        epoch: That of the group.
        part: The step of which this is a part; None if it tells the state before the first step of the group.
        state: That state; None for none.
    """

    sender: int
    epoch: int
    part: int | None = None
    state: State | None = None


@dataclasses.dataclass
class Worker:
    """A process: its machine, and the steps that it takes.

    Attributes:
        number: Counts the processes.
        state: None while it has none.
        agreed: Whether all members of its group have told their states.
        computed: Whether it has sent its part of the step under way.
        met: The states that members of its group have told.
        got: The members whose part of the step under way has come.
        early: Messages of a group or a step that comes later.
        inbox: What others have sent, in order, by the index of the sender's task.
        cut: The numbers of those that it does not see.
        broken: The epochs in which a message to it was lost, which it notices when it is in that group.
        taken: The steps that it has taken by itself.
        turns: How many records it has sent for another reason than that it saw somebody come or go.
        saw: The workers that it saw when it sent the last one.
    """

    machine: Membership
    number: int
    state: State | None = None
    group: Group | None = None
    leaving: bool = False
    left: bool = False
    agreed: bool = False
    computed: bool = False
    met: dict[int, State | None] = dataclasses.field(default_factory=dict)
    got: set[int] = dataclasses.field(default_factory=set)
    early: list[Message] = dataclasses.field(default_factory=list)
    inbox: defaultdict[int, list[Any]] = dataclasses.field(default_factory=lambda: defaultdict(list))
    cut: set[int] = dataclasses.field(default_factory=set)
    broken: set[int] = dataclasses.field(default_factory=set)
    taken: list[int] = dataclasses.field(default_factory=list)
    turns: int = 0
    saw: tuple[Member, ...] = ()
    asleep: bool = False
    gave_up: str = ""

    def __post_init__(self) -> None:
        self.own = self.machine.own
        self.place = self.own.task.index

    def put(self, sender: "Worker", message: Any) -> None:
        self.inbox[sender.place].append(message)


class World:
    """Workers and the connections between them.

    Args:
        size: The number of workers that there may be.
        seed: Of what happens.
        minimum: The least number of workers in a step.
        most: The greatest; None for all.

    Attributes:
        workers: Those that are up, by number.
        now: The time, in seconds.
        records: How many records were sent.
        groups: The groups that there have been, by epoch.
    """

    def __init__(self, size: int, seed: int, minimum: int = 1, most: int | None = None) -> None:
        self.random = random.Random(seed)
        self.tasks = tuple(Task("worker", index) for index in range(size))
        self.minimum, self.most = minimum, min(most or size, size)
        self.workers: dict[int, Worker] = {}
        self.now = 0.0
        self.records = self.starts = 0
        self.groups: dict[int, Group] = {}
        self.numbers: dict[int, list[int]] = {}  # of the members of a group, by epoch
        self.newest: dict[str, int] = {}  # by founder: the last epoch in which a step was completed
        self._awake: list[Worker] | None = None  # None when it has to be looked up anew
        self.late: dict[int, int] = {}  # steps completed in an older group, by worker
        self.breaks, self.some_met = True, False
        self.at_once = size >= _MANY
        self.pace = 0.1 if self.at_once else 1.0  # how likely a worker computes before it looks at its inbox

    # What happens to processes and connections.

    def start(self, index: int) -> None:
        """Start a process of a task that has none."""
        self.starts += 1
        own = Member(self.tasks[index], f"run {self.starts}")
        machine = Membership(
            own, self.tasks, self.minimum, 5.0, 60.0, first_epoch=1_000_000 * self.starts, most=self.most
        )
        worker = Worker(machine, self.starts)
        seen = MemberSeen(own, machine.record)
        for other in self.workers.values():
            other.put(worker, seen)
            worker.put(other, MemberSeen(other.own, other.machine.record))
        self.workers[worker.number] = worker
        self._awake = None
        self.act(worker, machine.start())
        self.tell(worker, TakesIn(True))
        self.tell(worker, BecameReady(founds=True))

    def end(self, worker: Worker) -> None:
        """End a process at once; others learn of it after what it has sent."""
        del self.workers[worker.number]
        self._awake = None
        gone = MemberGone(worker.own, certain=True)
        for other in self.workers.values():
            other.put(worker, gone)
            other.cut.discard(worker.number)

    def part(self, ones: Iterable[Worker], others: Sequence[Worker]) -> None:
        """Let workers lose sight of others: neither knows whether the other has ended."""
        for one in ones:
            for other in others:
                if other is one or other.number in one.cut:
                    continue
                for a, b in ((one, other), (other, one)):
                    a.cut.add(b.number)
                    # What is on its way is lost, but not what the task's process before it has sent.
                    came = a.inbox.get(b.place, ())
                    a.broken.update(each.epoch for each in came if isinstance(each, Message))
                    a.inbox[b.place] = [each for each in came if _sender(each) != b.number]
                    a.put(b, MemberGone(b.own, certain=False))

    def join(self, one: Worker, other: Worker) -> None:
        """Let two workers see each other again."""
        for a, b in ((one, other), (other, one)):
            a.cut.discard(b.number)
            a.put(b, MemberSeen(b.own, b.machine.record))

    def freeze(self, worker: Worker, unseen: Sequence[Worker]) -> None:
        """Let nothing happen to a worker for now, and some of the others lose sight of it."""
        worker.asleep, self._awake = True, None
        self.part([worker], unseen)

    def heal(self) -> None:
        """Let all see each other again, and wake up."""
        self._awake = None
        for worker in self.workers.values():
            worker.asleep = False
            for number in sorted(worker.cut):
                self.join(worker, self.workers[number])

    # What machines decide.

    def tell(self, worker: Worker, *events: Any) -> None:
        self.act(worker, worker.machine.handle(events, self.now))

    def act(self, worker: Worker, actions: Any) -> None:
        for action in actions:
            match action:
                case PublishRecord(record):
                    seen = MemberSeen(worker.own, record)
                    worker.turns += record.sees == worker.saw
                    worker.saw = record.sees
                    for other in self.workers.values():
                        if other is not worker and other.number not in worker.cut:
                            self.records += 1
                            other.inbox[worker.place].append(seen)
                case LeaveStep():
                    worker.leaving = True
                case EnterGroup(group):
                    # Who founds a group makes it; all others enter what it has published.
                    assert self.groups.setdefault(group.epoch, group) is group, "two made the same epoch"
                    assert len({each.task for each in group.members}) == len(group.members) <= self.most
                    assert len(group.members) >= self.minimum
                    self.enter(worker, group)
                case GiveUp(reason):
                    worker.gave_up, self._awake = reason, None

    # The steps of a group.

    def enter(self, worker: Worker, group: Group) -> None:
        worker.group, worker.agreed = group, False
        worker.leaving = worker.left = False
        worker.met, worker.got = {worker.number: worker.state}, set()
        self.send(worker, Message(worker.number, group.epoch, state=worker.state))
        self.take_early(worker)
        self.progress(worker)

    def send(self, worker: Worker, message: Message) -> None:
        assert worker.group is not None
        if (numbers := self.numbers.get(message.epoch)) is None:
            numbers = self.numbers[message.epoch] = [int(each.run[4:]) for each in worker.group.members]
        for number in numbers:
            if number == worker.number:
                continue
            if number in worker.cut:
                self.workers[number].broken.add(message.epoch)
            elif number in self.workers:
                self.workers[number].put(worker, message)

    def take_early(self, worker: Worker) -> None:
        early, worker.early = worker.early, []
        for message in early:
            self.receive(worker, message)

    def receive(self, worker: Worker, message: Message) -> None:
        """Take a message of the group; what is of a group or a step that comes later waits."""
        epoch = worker.group.epoch if worker.group is not None else 0
        if message.epoch > epoch:
            worker.early.append(message)
        elif message.epoch == epoch and not worker.leaving:
            if message.part is None:
                worker.met[message.sender] = message.state
            elif worker.agreed and worker.state is not None and message.part == worker.state.step:
                worker.got.add(message.sender)
            else:
                worker.early.append(message)
            self.progress(worker)

    def progress(self, worker: Worker) -> None:
        """Agree on the step when all have told their state; complete a step when all parts have come."""
        group = worker.group
        if group is None or worker.leaving or len(worker.met) < len(group.members):
            return
        if not worker.agreed:
            worker.state, worker.agreed = self.agree(worker, group), True
            self.some_met = True
            self.tell(worker, MembersMet(group))
            if worker.group is group and not worker.leaving:
                self.begin(worker)
        elif len(worker.got) == len(group.members):
            assert worker.state is not None
            self.note(worker, worker.state, group.epoch)
            worker.taken.append(worker.state.step)
            worker.state = worker.state.after(group.epoch)
            self.begin(worker)

    def agree(self, worker: Worker, group: Group) -> State:
        """Return the state of those who are furthest, if all others have that or the one before it."""
        known = {state for state in worker.met.values() if state is not None}
        run = group.members[0].run
        newest = max(known, default=State(0, hash(run), 0, run))
        for state in known - {newest}:
            behind = (newest.step - 1, newest.before, newest.founded)
            assert (state.step, state.chain, state.founded) == behind, "states with a lost or doubled step"
        if worker.state is not None and worker.state != newest:
            worker.taken.append(worker.state.step)  # with the result of the others
        return newest

    def begin(self, worker: Worker) -> None:
        worker.got, worker.computed = set(), False
        if self.pace == 1:
            self.compute(worker)

    def compute(self, worker: Worker) -> None:
        assert worker.group is not None
        assert worker.state is not None
        worker.computed = True
        worker.got.add(worker.number)
        self.send(worker, Message(worker.number, worker.group.epoch, part=worker.state.step))
        self.take_early(worker)
        if len(worker.group.members) > 1:  # alone it goes on by itself, in `happen`
            self.progress(worker)

    def note(self, worker: Worker, state: State, epoch: int) -> None:
        """Check that workers of an older group than others' complete nothing but what was sent before."""
        if self.newest.setdefault(state.founded, epoch) > epoch:
            count = self.late[worker.number] = self.late.get(worker.number, 0) + 1
            assert count <= 1, f"{worker.own} trains on in epoch {epoch}, others are further"
        else:
            self.newest[state.founded] = epoch

    # Time passes.

    def awake(self) -> list[Worker]:
        """Return those to whom something can happen: all but frozen ones and those that have given up."""
        if self._awake is None:
            self._awake = [each for each in self.workers.values() if not each.asleep and not each.gave_up]
        return self._awake

    def trains(self, worker: Worker) -> bool:
        return worker.machine.record.phase is MemberPhase.IN and worker.agreed and not worker.leaving

    def happen(self) -> None:
        """Let one thing happen to a worker: something comes, or it leaves its step, or time passes."""
        self.now += 0.05 / len(self.tasks) if self.at_once else 0.01
        awake = self.awake()
        if not awake:
            return
        worker = self.random.choice(awake)
        if self.look(worker):
            return
        trains = self.trains(worker)
        if worker.leaving and not worker.left and self.random.random() < 0.3:
            self.leave(worker)
        elif trains and not worker.computed and self.random.random() < self.pace:
            self.compute(worker)
        elif places := [place for place, queue in worker.inbox.items() if queue]:
            if self.at_once:
                share = self.random.choice((0.5, 1.0))
                chosen = [each for each in places if self.random.random() < share]
                self.deliver(worker, [each for place in chosen for each in worker.inbox.pop(place)])
            else:
                self.deliver(worker, [worker.inbox[self.random.choice(places)].pop(0)])
        elif self.random.random() < 0.2:
            self.tell(worker, TimePassed())
        elif trains and worker.group is not None:
            if len(worker.group.members) == 1:
                self.progress(worker)
            elif self.breaks and self.random.random() < 0.02:
                self.tell(worker, LinkBroken(worker.group.epoch))

    def happen_to_all(self) -> None:
        """Let all workers take what has come, as on a quick network."""
        self.now += 0.05
        wakes = min((each.machine.wake_at for each in self.awake()), default=math.inf)
        if wakes < math.inf and not any(each.inbox or each.leaving for each in self.awake()):
            self.now = max(self.now, wakes)  # nothing happens before
        for worker in self.awake():
            self.look(worker)
            if worker.leaving and not worker.left:
                self.leave(worker)
            elif self.trains(worker) and not worker.computed and self.random.random() < self.pace:
                self.compute(worker)
            came = [each for queue in worker.inbox.values() for each in queue]
            worker.inbox.clear()
            if came or worker.machine.wake_at <= self.now:
                self.deliver(worker, came)

    def look(self, worker: Worker) -> bool:
        """Let a worker notice a job that is under way, or become ready; return whether it did."""
        machine = worker.machine
        epoch = worker.group.epoch if worker.group is not None else 0
        if epoch in worker.broken and machine.record.phase is MemberPhase.IN:
            worker.broken.discard(epoch)
            self.tell(worker, LinkBroken(epoch))
        elif (
            machine.record.phase is MemberPhase.FOUNDING
            and self.some_met
            and any(each.base is not None for each in machine.present().values())
        ):
            worker.group = None
            self.tell(worker, CameLate())
        elif machine.record.phase is MemberPhase.STARTING:
            self.tell(worker, BecameReady())
        else:
            return False
        return True

    def leave(self, worker: Worker) -> None:
        worker.left = True
        self.tell(worker, StepLeft())

    def deliver(self, worker: Worker, came: Sequence[Any]) -> None:
        events = [each for each in came if not isinstance(each, Message)]
        messages = [each for each in came if isinstance(each, Message)]
        if events or not messages or worker.machine.wake_at <= self.now:
            self.tell(worker, *(events or [TimePassed()]))
        for message in messages:
            self.receive(worker, message)

    # The end of a history.

    def train_together(self) -> bool:
        """Return whether all that are up, or as many as a group may have, are in one group and have met."""
        members = [each for each in self.workers.values() if each.agreed]  # others stand by
        if len(members) != min(self.most, len(self.workers)) or any(each.leaving for each in members):
            return False
        epochs = {each.group.epoch for each in members if each.group is not None}
        return len(epochs) == 1 and {each.number for each in members} == {*self.numbers[epochs.pop()]}

    def settle_all(self, rounds: int) -> int:
        """Let rounds pass until all train together, and return how many records were sent since."""
        before = self.records
        for _ in range(rounds):
            self.happen_to_all()
            if self.train_together():
                return self.records - before
        raise AssertionError(f"they do not agree in {rounds} rounds")

    def settle(self, least: int = 3) -> int:
        """Let things happen until all that are up train together and have taken some steps.

        Returns:
            How many groups were made since.
        """
        self.breaks, goal, before = False, None, len(self.groups)
        every = max(1, len(self.tasks) // 8)
        for _ in range(100_000):
            for _ in range(every):
                self.happen()
            for worker in [each for each in self.workers.values() if each.gave_up]:
                self.end(worker)
            workers = list(self.workers.values())
            if len(workers) < self.minimum:
                return len(self.groups) - before  # they wait for others
            if all(each.group is None and each.place for each in workers):
                return len(self.groups) - before  # nobody has a state, and nobody may found a group
            if self.train_together():
                steps = [each.state.step for each in workers if each.state is not None]
                goal = goal if goal is not None else max(steps) + least
                if min(steps) >= goal:
                    return len(self.groups) - before
            else:
                goal = None
        up = [f"{each.own.run} {each.machine.record} {each.state}" for each in self.workers.values()]
        raise AssertionError("\n".join(["they do not agree:", *up]))

    def check(self) -> None:
        """Check that each worker has taken every step once, from its first on."""
        for worker in self.workers.values():
            steps = worker.taken
            assert steps == list(range(steps[0], steps[0] + len(steps))) if steps else True, worker.own


def _sender(message: Any) -> int:
    """Return the number of the process that has sent a message."""
    if isinstance(message, Message):
        return message.sender
    return int(message.member.run[4:])
