"""Rounds over several servers: whatever connections break and whoever stands still, they go on and agree."""

from hypothesis import given, settings
from hypothesis import strategies as st
from ps_rows import VERSIONS, AddingDevice, added, as_buffer, everything, filled

from muster.ps import _messages as messages
from muster.ps._machine import Machine
from muster.ps._messages import Caller
from muster.ps._plan import fingerprint
from muster.ps._replies import Asked, Lost

PLAN = added(max_staleness=0)
SERVERS = range(2)
WORKERS = range(3)
MAX_STEPS = 6


class Job:
    def __init__(self):
        self.servers = [
            Machine(
                AddingDevice(),
                name=f"ps {index}",
                run="1",
                keeps_step=index == 0,
                versions=VERSIONS,
                workers=len(WORKERS),
            )
            for index in SERVERS
        ]
        self.workers = [Worker(self, index) for index in WORKERS]
        for index, server in enumerate(self.servers):
            for worker in self.workers:
                worker.join(index)
            server.handle([Asked(self.workers[0].caller, messages.Offer(), as_buffer(PLAN))], 0.0)
            server.handle([Asked(self.workers[0].caller, messages.Initialize(), everything(PLAN, 0.0))], 0.0)

    def tell(self, server, replies):
        for reply in replies:
            self.workers[int(reply.caller.task[-1])].hear(server, reply.message)

    def counts(self, server):
        """How often the update has run."""
        (reply,) = self.servers[server].handle([Asked(self.workers[0].caller, messages.Stats(), [])], 0.0)
        return reply.message.version - 1


class Worker:
    """Asks the first server for a ticket, and then pushes to each, one message at a time."""

    def __init__(self, job, index):
        self.job, self.caller = job, Caller(f"worker {index}", "run")
        self.sequence, self.round, self.done = [0, 0], None, False
        self.open = {}  # server -> the request that it has not answered
        self.pushed = set()  # the servers to which this round's push went

    def join(self, server):
        request = messages.Join(
            plan=fingerprint(PLAN), versions=VERSIONS, starts=self.caller.task == "worker 0"
        )
        self.job.tell(server, self.job.servers[server].handle([Asked(self.caller, request, [])], 0.0))

    def send(self, server):
        request = self.open[server]
        arrays = filled(PLAN.pushed, 1.0) if isinstance(request, messages.Push) else []
        self.job.tell(server, self.job.servers[server].handle([Asked(self.caller, request, arrays)], 0.0))

    def go_on(self, server):
        """Send what is next to a server, if there is anything."""
        if self.done or server in self.open or server in self.pushed:
            return
        if self.round is None:
            if server:
                return
            self.open[0] = messages.TakeTicket(max_steps=MAX_STEPS)
        else:
            self.sequence[server] += 1
            self.pushed.add(server)
            self.open[server] = messages.Push(
                number=self.sequence[server],
                round=self.round,
                ticket=None if server else self.ticket,
                wants=not server,
                max_steps=None if server else MAX_STEPS,
            )
        self.send(server)

    def hear(self, server, message):
        assert not isinstance(message, messages.Refused), message
        if isinstance(message, messages.Ticket):
            self.ticket, self.round, self.done = message.number, message.round, message.number is None
        elif isinstance(message, messages.Values) and not server:
            self.next = message
        elif not isinstance(message, messages.Values):
            return
        del self.open[server]
        if self.pushed == set(SERVERS) and not self.open:
            self.pushed = set()
            self.ticket, self.round, self.done = self.next.ticket, self.next.round, self.next.finished

    def reconnect(self, server, *, noticed):
        if noticed:
            self.job.tell(server, self.job.servers[server].handle([Lost(self.caller)], 0.0))
        self.join(server)
        if server in self.open:
            self.send(server)


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(WORKERS),
            st.sampled_from(SERVERS),
            st.sampled_from(["goes on", "goes on", "goes on", "is lost", "comes again", "stalls"]),
        ),
        max_size=80,
    )
)
def test_they_make_all_steps_and_none_twice(events):
    job = Job()
    for worker, server, what in events:
        match what:
            case "goes on":
                job.workers[worker].go_on(server)
            case "stalls":  # others than this worker have waited for long
                job.tell(server, job.servers[server].handle([], 1e9))
            case _:
                job.workers[worker].reconnect(server, noticed=what == "is lost")
        assert job.counts(0) <= MAX_STEPS
    for _ in range(3 * MAX_STEPS):
        for worker in job.workers:
            for server in SERVERS:
                worker.go_on(server)
    assert all(worker.done for worker in job.workers)
    assert job.counts(0) == MAX_STEPS
    if not any(what in ("is lost", "stalls") for _, _, what in events):
        assert job.counts(1) == MAX_STEPS
