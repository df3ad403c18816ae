"""A worker's parameter servers, as its engine and its training loop use them."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from muster._errors import JobEndedError, MissingPeerError
from muster.distribute.engine._flat_arrays import Buffers
from muster.distribute.engine._plans import plans_of
from muster.distribute.engine._served_steps import NoMoreSteps
from muster.distribute.engine._shards import Division
from muster.distribute.workers import Exchanged
from muster.ps import (
    Array,
    Client,
    Dialer,
    Held,
    PartRequests,
    PartSavers,
    Plan,
    Pulled,
    Pushed,
    Round,
    SavePart,
    Servers,
    SharedInput,
    fingerprint,
)
from muster.ps.contents.updates import versions

_log = logging.getLogger(__name__)


# How often a chief that has read its input looks whether others still train, in seconds.
_LOOK_SECS = 0.5


class RemoteServers:
    """Connects one worker to all parameter servers of its job, once its step is known.

    A step needs a ticket, the right to make one global step, so that the workers together make ``max_steps``.
    The next one comes with the answer to a push.

    Args:
        task: The name of this task.
        dials: The name of each server, such as ``ps 0 at host:port``, and what connects to it.
        save_dials: Likewise, to let each server write its part of a checkpoint.
        starts: Whether this is the chief, whose values the servers start from.

    Attributes:
        max_staleness: How many steps this worker may be ahead of the slowest one; None for any number, 0 for
            steps that all workers make together.
        global_step: The number of steps that all workers have made, as of the last answer; before the first
            one, that of the values to start from.
        ticket: The right of this worker to make a step, by its number; None for none.
        shared: The pass over the data, if workers share one: the chief's, until the first server has said
            which one it is.
        current: The batch of this step.
        upcoming: That of the next step, if it is known: the answer to a push can bring its rows.
        draw: Reads the batch after that, if the next is known; called while servers answer a push.
        open: What is left of that pass before the global step, to start from, or as of the last `read`: see
            ``Initialize``.
        exchanged: What steps have exchanged with the servers, and waited for them.
    """

    def __init__(
        self,
        task: str,
        dials: Sequence[tuple[str, Dialer]],
        save_dials: Sequence[tuple[str, Dialer]] = (),
        *,
        starts: bool,
    ) -> None:
        self.max_staleness: int | None = None
        self.global_step = 0
        self._task = task
        self._dials = dials
        self._savers = PartSavers(save_dials)
        self._plans: list[str] = []  # their fingerprints
        self._origins: list[str] = []  # the random ids of each server's initial values
        self._starts = starts
        self._max_steps: int | None = None
        self._servers: Servers | None = None
        self._watched: Servers | None = None  # the first one, before this worker takes part
        self._looks_up = False
        self.ticket: int | None = None
        self.current: Any = None
        self.upcoming: Any = None
        self.draw: Callable[[], None] | None = None
        self.shared: SharedInput | None = None
        self.open: Sequence[int] = ()
        self.exchanged = Exchanged()
        self._round: Round | None = None  # of the ticket
        self._finished = False

    @property
    def count(self) -> int:
        """The number of servers."""
        return len(self._dials)

    @property
    def fetches_ahead(self) -> bool:
        """True if it is of use to know the next batch; tickets may say which it is, once they are here."""
        return self._looks_up and self.shared is None

    def begin(self, max_steps: int | None) -> None:
        """Begin a training, also after another one of this task.

        Args:
            max_steps: The global step at which no more tickets are given; None for no end.
        """
        self.close()
        self._servers = self._watched = self.ticket = self._round = None
        self.current = self.upcoming = self.draw = None
        self._looks_up = False
        self._finished = False
        self._max_steps = max_steps

    def start(self, division: Division, values: Mapping[str, Any]) -> list[Buffers]:
        """Give the servers their plans and, as the chief, first values; return what they hold.

        Args:
            division: What each server holds and does.
            values: Path -> value of every variable on servers.

        Raises:
            NoMoreSteps: The workers have made all steps already, or the chief has ended the job.
            JobEndedError: It has, and this is another chief.
        """
        if self._finished:  # the servers have ended, too
            raise self._no_more_steps()
        self._looks_up = division.lookups is not None
        plans = plans_of(division, self.max_staleness)
        self._plans = [fingerprint(plan) for plan in plans]
        self._servers = servers = Servers(
            [self._client(*each, plan) for each, plan in zip(self._dials, plans, strict=True)]
        )
        try:
            joined = servers.join()
            self._unwatch()
            if self._starts and not all(each.initialized for each in joined):
                servers.initialize(division.split(values), self.global_step, self.shared, self.open)
            pulled = servers.pull_plans()
            self._origins = [each.answer.origin for each in pulled]
            self.global_step = pulled[0].answer.step
            self.require_ticket()
            # While this worker waited for others, these have gone on.
            return self.pull()
        except JobEndedError as exc:
            if self._starts:
                raise  # these may be servers of a job before
            raise self._no_more_steps() from exc

    def _client(self, name: str, dial: Dialer, plan: Plan) -> Client:
        return Client(name, dial, plan, starts=self._starts, versions=versions())

    def require_ticket(self) -> None:
        """Wait for the right to make a step, unless this worker has it, or has not met the servers yet.

        Raises:
            NoMoreSteps: The workers have made all steps.
            ValueError: Some workers share their input, and others do not.
        """
        if self._servers is None or self.ticket is not None:
            return
        if not self._finished:
            try:
                with self._exchange() as servers:
                    ticket = servers.take_ticket(self._max_steps)
                if (ticket.shared is None) != (self.shared is None):
                    raise ValueError(_other_input(self._task, self.shared is not None))
                self.ticket, self._round, self.shared = ticket.number, ticket.round, ticket.shared
            except JobEndedError:
                self.ticket = None
            self._finished = self.ticket is None
        if self._finished:
            raise NoMoreSteps

    def end_at(self, step: int) -> None:
        """Let training end at a global step, and give back the ticket of this worker, which is beyond."""
        self._max_steps = step if self._max_steps is None else min(step, self._max_steps)
        self.ticket = None
        try:
            self._met().give_back_ticket()
        except JobEndedError:  # the others were faster
            self._finished = True

    def look_up(self, ids: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Return rows of the tables of each server, by ids: see `Servers.look_up`.

        Raises:
            NoMoreSteps: The chief has ended the job, without this step.
        """
        try:
            with self._exchange() as servers:
                return servers.look_up(ids)
        except JobEndedError as exc:
            raise self._no_more_steps() from exc

    def push_and_pull(self, pushed: Sequence[Pushed]) -> list[Pulled]:
        """Push to each server, and return the values that each has then; perhaps without rows.

        Raises:
            NoMoreSteps: The chief has ended the job, without this step.
        """
        try:
            with self._exchange() as servers:
                answers = servers.push_and_pull(
                    pushed,
                    ticket=self.ticket,
                    shared=self._round,
                    wants=True,
                    max_steps=self._max_steps,
                    exact=self.shared is not None,
                    meanwhile=None if self.draw is None else self._draw,
                )
        except JobEndedError as exc:
            raise self._no_more_steps() from exc
        first = answers[0].answer
        self.ticket, self._round, self._finished = first.ticket, first.round, first.finished
        self.global_step = first.step
        if self._round is not None and not all(each.answer.applied for each in answers):
            return self._pull()  # some servers have answered before this round
        return answers

    def _draw(self) -> None:
        """Read a batch, which takes none of the time of the exchange."""
        began = time.monotonic()
        self.draw()  # type: ignore[misc]
        self.exchanged.secs -= time.monotonic() - began

    @contextlib.contextmanager
    def _exchange(self) -> Iterator[Servers]:
        """Count the time and the bytes of what is exchanged with servers, which are returned."""
        servers = self._met()
        began, nbytes = time.monotonic(), servers.nbytes
        yield servers
        self.exchanged.secs += time.monotonic() - began
        self.exchanged.nbytes += servers.nbytes - nbytes

    def _no_more_steps(self) -> NoMoreSteps:
        _log.info("%s stops, as the chief has ended the job.", self._task)
        self._finished = True
        return NoMoreSteps()

    def pull(self) -> list[Buffers]:
        """Return the values that each server has now."""
        return [each.pulled for each in self._pull()]

    def _pull(self) -> list[Pulled]:
        answers = self._met().pull_plans()
        self.global_step = answers[0].answer.step
        return answers

    def read(self) -> list[Held]:
        """Return all values of each server."""
        answers = self._met().read_all()
        self.open = answers[0][0].open
        return [held for _, held in answers]

    def save(self, folder: str, token: str, files: Sequence[str]) -> PartRequests | None:
        """Let the servers write the values that they have now; None if one does not see the folder.

        Args:
            folder: The folder of a checkpoint.
            token: A file in it.
            files: The name of the file that each server is to write.
        """
        asked = zip(self._plans, self._origins, files, strict=True)
        return self._savers.begin(
            [
                SavePart(plan=plan, origin=origin, folder=folder, token=token, file=file)
                for plan, origin, file in asked
            ]
        )

    def look_up_step(self) -> int | None:
        """Ask the first server for the global step; None once the job has ended. Takes part in nothing."""
        if self._finished:
            return None
        try:
            if self._servers is None and self._watched is None:
                # It stays connected: at the end of the job, the server waits for it to look once more.
                self._watched = Servers([self._client(*self._dials[0], Plan())])
                self._watched.join()
            first = (self._servers or self._watched).statistics()[0]  # type: ignore[union-attr]
        except JobEndedError:
            self._finished = True
        else:
            self._finished = first.ended
        if not self._finished:
            return first.step
        self._unwatch()
        return None

    def leave(self) -> None:
        """Give back the right to a step, since the input has ended; the chief waits for the other workers."""
        if self._servers is None or self._finished:
            return
        if self.ticket is not None:
            self.ticket = None
            self._servers.give_back_ticket()
        workers, others = len(self._met().statistics()[0].workers), self._others()
        _log.info("The input of %s has ended. %d workers read an epoch each.", self._task, workers)
        if self._starts and others:
            _log.info("%s waits for the training of %s to end.", self._task, others)
            while self._others():  # servers answer and never call, so that one has to ask
                time.sleep(_LOOK_SECS)

    def _others(self) -> str:
        """Return the names of other workers that train."""
        workers = self._met().statistics()[0].workers
        return ", ".join(name for name, each in workers.items() if each.connected and name != self._task)

    def end(self) -> None:
        """Tell all servers that the job has ended."""
        if self._servers is not None:
            self._servers.end()
            return
        # This task has not trained, since all steps were made before. Servers that are up wait all the same.
        _log.info("%s has no steps to make, and tells the servers that the job has ended.", self._task)
        self._servers = Servers([self._client(*each, Plan()) for each in self._dials])
        try:
            self._servers.end()
        except MissingPeerError as exc:
            _log.warning("A parameter server was not told that the job has ended: %s", exc)

    def close(self) -> None:
        """Close the connections."""
        self._unwatch()
        if self._servers is not None:
            self._servers.close()

    def _unwatch(self) -> None:
        if self._watched is not None:
            self._watched.close()
            self._watched = None

    def _met(self) -> Servers:
        if self._servers is None:
            raise RuntimeError("This worker has not met its servers yet.")
        return self._servers


def _other_input(task: str, shares: bool) -> str:
    mine, others = ("has", "has not") if shares else ("has not", "has")
    return (
        f'The dataset of {task} {mine} dispatch="dynamic", and that of the chief {others}. Run the same '
        "program in all tasks."
    )
