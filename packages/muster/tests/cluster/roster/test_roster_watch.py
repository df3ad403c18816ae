"""What a task makes of what it hears: events in, actions out, without sockets and clocks."""

import dataclasses
import logging

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from muster import _errors as errors
from muster._event_log import replay
from muster.cluster import Task
from muster.cluster.roster._membership_events import (
    GroupRecord,
    Member,
)
from muster.cluster.roster._roster_events import (
    Announced,
    Answer,
    Called,
    Close,
    Dial,
    Dialed,
    DialFailed,
    Garbled,
    Heard,
    HungUp,
    Leave,
    Log,
    Lose,
    OwnTaskEnded,
    Publish,
    Tick,
)
from muster.cluster.roster._roster_messages import Progress, RosterHello, Status, TaskState
from muster.cluster.roster._roster_watch import (
    ENDING,
    FAIL_SECS,
    LINGER_SECS,
    RECONNECT_SECS,
    REDIAL_SECS,
    REJOIN_SECS,
    ROSTER_CLASSES,
    SILENT_SECS,
    STRAY_SECS,
    Watch,
)

WORKERS = tuple(Task("worker", index) for index in range(3))
ZERO, ONE, TWO = WORKERS
ADDRESSES = {ONE: "one:2222", TWO: "two:2222"}
HEARTBEAT = 30.0


def status(task, *, state=TaskState.TRAINING, **changes):
    """What a healthy task that has reached worker 0 says."""
    healthy = Status(
        job="job",
        task=task,
        run=f"run of {task}",
        pid=7,
        host="host",
        versions={"jax": "1"},
        training=WORKERS,
        reached={str(ZERO): "run of worker 0"},
        progress=Progress(state=state),
    )
    return dataclasses.replace(healthy, **changes)


def failed(task, error, blamed=None):
    return status(task, state=TaskState.FAILED, error=error, blamed=blamed)


@pytest.fixture
def watch():
    """That of worker 0, of three."""
    return Watch(dataclasses.replace(status(ZERO), reached={}, progress=Progress()), ADDRESSES, HEARTBEAT)


@pytest.fixture
def joined(watch):
    """The same, when all have joined at time 0."""
    for task in (ONE, TWO):
        watch.handle([Dialed(task)], 0.0)
        watch.handle([Heard(task, status(task))], 0.0)
    assert not watch.missing_peers()
    return watch


def kinds(actions):
    return [type(action) for action in actions]


def lost(actions):
    return [(action.task, action.why) for action in actions if isinstance(action, Lose)]


def logged(actions):
    return [action.text for action in actions if isinstance(action, Log)]


# Meeting.


def test_it_calls_every_peer_and_again_until_it_answers(watch):
    assert watch.start() == [Dial(ONE, 0.0), Dial(TWO, 0.0)]
    assert watch.handle([DialFailed(ONE, "connection refused")], 1.0) == [Dial(ONE, REDIAL_SECS)]
    assert watch.missing_peers()[ONE] == "worker 1 at one:2222 (connection refused)"
    assert watch.handle([Dialed(ONE)], 2.0) == []
    assert "accepts connections there, but does not answer" in watch.missing_peers()[ONE]
    actions = watch.handle([Heard(ONE, status(ONE))], 2.0)
    assert actions == [Log(logging.INFO, "Reached worker 1 at one:2222 (process 7 on host)."), Publish()]
    assert watch.own.reached == {str(ONE): "run of worker 1"}
    assert list(watch.missing_peers()) == [TWO]


def test_a_peer_that_has_not_reached_this_task_is_missing(watch):
    watch.handle([Dialed(ONE)], 0.0)
    watch.handle([Heard(ONE, status(ONE, reached={}))], 0.0)
    assert watch.missing_peers()[ONE] == "worker 1 at one:2222 (it has not reached this task yet)"
    watch.handle([Heard(ONE, status(ONE))], 0.0)
    assert list(watch.missing_peers()) == [TWO]


def test_a_connection_that_stays_silent_is_given_up_for_a_new_one(watch):
    watch.handle([Dialed(ONE)], 0.0)
    assert Close(ONE) not in watch.handle([Tick(Progress())], SILENT_SECS)
    assert watch.handle([Tick(Progress())], SILENT_SECS + 0.1)[:2] == [Close(ONE), Dial(ONE, 0.0)]
    # As slow starters do it: that is no reason to give up.
    assert watch.hopeless([ONE], 1e6) is None


def test_a_peer_that_breaks_off_before_it_answered_is_called_again(watch):
    watch.handle([Dialed(ONE)], 0.0)
    assert watch.handle([HungUp(ONE, "reset")], 0.0) == [Dial(ONE, REDIAL_SECS)]
    assert watch.hopeless([ONE], 1e6) is None


STRAYS = {
    "another job": (status(ONE, job="other"), "it is worker 1 of job other (process 7 on host)"),
    "another task": (status(TWO), "it is worker 2 of job job"),
    "a task that was started twice": (
        status(ONE, reached={str(ZERO): "x"}),
        "it has reached another process as worker 0",
    ),
    "an earlier run": (failed(ONE, "x", blamed=TWO), "it is just ending"),
    "an impostor": (Progress(), "it does not say who it is"),
}


@pytest.mark.parametrize(("news", "says"), STRAYS.values(), ids=STRAYS)
def test_a_stray_is_named_at_once_and_an_error_after_a_while(watch, news, says):
    watch.handle([Dialed(ONE)], 5.0)
    actions = watch.handle([Heard(ONE, news)], 5.0)
    assert kinds(actions) == [Log, Close, Dial]
    assert logged(actions)[0].startswith(f"What answers is not worker 1 at one:2222: {says}")
    assert watch.hopeless([ONE], 5.0) is None
    watch.handle([Dialed(ONE)], 6.0)
    assert kinds(watch.handle([Heard(ONE, news)], 6.0)) == [Close, Dial]  # said once
    watch.handle([Dialed(ONE)], 7.0)
    error = watch.hopeless([ONE], 5.0 + STRAY_SECS)
    assert isinstance(error, errors.StrayPeerError)
    assert says in str(error)
    assert says in watch.missing_peers()[ONE]
    assert str(ONE) not in watch.own.reached


def test_a_stray_that_leaves_is_forgotten(watch):
    watch.handle([Dialed(ONE)], 0.0)
    watch.handle([Garbled(ONE, "it is something else: it sends b'SSH'")], 0.0)
    assert "it is something else: it sends b'SSH'" in watch.missing_peers()[ONE]
    watch.handle([DialFailed(ONE, "connection refused")], 1.0)
    assert watch.hopeless([ONE], 1e6) is None
    watch.handle([Dialed(ONE)], 2.0)
    watch.handle([Heard(ONE, status(ONE))], 2.0)
    assert str(ONE) in watch.own.reached


MISMATCHES = {
    "versions": (
        status(ONE, versions={"jax": "2", "keras": "3"}),
        "worker 1 at one:2222 has jax 2, keras 3, and worker 0 has jax 1, keras not at all.",
    ),
    "clusters": (
        status(ONE, training=(ZERO, ONE)),
        "it trains with worker 0, worker 1, and worker 0 with worker 0, worker 1, worker 2.",
    ),
}


@pytest.mark.parametrize(("news", "says"), MISMATCHES.values(), ids=MISMATCHES)
def test_a_peer_that_does_not_fit_is_an_error_once_it_had_time_to_learn_it_too(watch, news, says):
    for now in (0.0, 1.0):
        watch.handle([Dialed(ONE)], now)
        actions = watch.handle([Heard(ONE, news)], now)
        assert actions[-2:] == [Close(ONE), Dial(ONE, REDIAL_SECS)]
        assert len(logged(actions)) == (now == 0.0)
    assert watch.hopeless([ONE], LINGER_SECS - 0.1) is None
    error = watch.hopeless([ONE], LINGER_SECS)
    assert isinstance(error, errors.MismatchError)
    assert says in str(error)


# Being called.


def called(watch, caller, watches=True):
    return watch.handle([Called(3, "10.0.0.9", RosterHello(watch=watches, caller=caller))], 0.0)


def test_peers_are_told_of_every_change_and_others_once(watch):
    assert called(watch, status(ONE)) == [Answer(3, keep=True)]
    assert called(watch, status(ONE), watches=False) == [Answer(3, keep=False)]
    assert called(watch, None) == [Answer(3, keep=False)]


@pytest.mark.parametrize(
    ("caller", "says"),
    [
        (
            status(ONE, job="other"),
            "it says that it is worker 1 of job other (process 7 on host), but this is",
        ),
        (status(Task("worker", 9)), "the cluster has worker 0, worker 1, worker 2, and this is worker 0"),
        (status(ZERO, run="x"), "and this is worker 0"),
        (status(ONE, run="x"), "but worker 1 at one:2222 answers as another process"),
    ],
)
def test_a_stray_caller_is_named_once_and_told_who_is_here(joined, caller, says):
    actions = called(joined, caller)
    assert actions[0] == Answer(3, keep=False)
    assert says in logged(actions)[0]
    assert called(joined, caller) == [Answer(3, keep=False)]
    assert joined.hopeless([], 1e6) is None


def test_a_caller_that_trains_in_step_is_told_that_this_task_does_not():
    alone = Watch(status(ZERO), {}, HEARTBEAT)
    actions = called(alone, status(ONE))
    assert actions[0] == Answer(3, keep=False)
    assert "this is worker 0, which meets no other task" in logged(actions)[0]
    assert "Give all tasks of the job the same strategy" in logged(actions)[0]


def test_many_strangers_cannot_fill_the_log(joined):
    texts = [logged(called(joined, status(Task("x", index)))) for index in range(1000)]
    assert 0 < sum(map(len, texts)) <= 100


# Losing.


def test_a_peer_that_breaks_off_is_lost_and_the_others_are_told(joined):
    actions = joined.handle([HungUp(ONE, "reset")], 1.0)
    assert actions == [
        Publish(),
        Lose(ONE, "worker 1 at one:2222 has ended without a word (reset).", ONE),
    ]
    assert (joined.own.state, joined.own.blamed) == (TaskState.FAILED, ONE)
    assert isinstance(joined.hopeless([], 1.0), errors.PeerLostError)
    assert lost(joined.handle([HungUp(TWO, "reset")], 1.0)) == []  # once


def test_a_connection_that_the_network_breaks_is_made_again(joined):
    actions = joined.handle([HungUp(ONE, "connection reset", broken=True)], 1.0)
    assert actions[1:] == [Dial(ONE, 0.0)]
    assert joined.handle([DialFailed(ONE, "no route to host")], 2.0) == [Dial(ONE, REDIAL_SECS)]
    assert joined.handle([Dialed(ONE)], 3.0) == []
    assert lost(joined.handle([Heard(ONE, status(ONE))], 3.0)) == []
    assert lost(joined.handle([Tick(Progress())], 3.1 + RECONNECT_SECS)) == []
    ((task, _),) = lost(joined.handle([HungUp(ONE, "end")], 8.0))
    assert task == ONE


def test_a_connection_that_breaks_again_while_it_is_made_again(joined):
    joined.handle([HungUp(ONE, "connection reset", broken=True)], 1.0)
    joined.handle([Dialed(ONE)], 1.5)
    assert joined.handle([HungUp(ONE, "no route to host", broken=True)], 2.0) == [Dial(ONE, REDIAL_SECS)]
    ((_, why),) = lost(joined.handle([Tick(Progress())], 1.1 + RECONNECT_SECS))  # as after the first time
    assert "cannot be made again (no route to host)" in why


@pytest.mark.parametrize(
    ("event", "now", "reason"),
    [
        (
            DialFailed(ONE, "refused", refused=True),
            1.1,
            "ended without a word (refused)",
        ),
        (Tick(Progress()), 1.1 + RECONNECT_SECS, "cannot be made again (connection reset)"),
        (Garbled(ONE, "it sends b'x'"), 1.1, "is another now: it sends b'x'"),
        (HungUp(ONE, "end"), 1.1, "ended without a word (end)"),
    ],
)
def test_a_connection_that_cannot_be_made_again_is_a_loss(joined, event, now, reason):
    joined.handle([HungUp(ONE, "connection reset", broken=True)], 1.0)
    ((task, why),) = lost(joined.handle([event], now))
    assert task == ONE
    assert reason in why


def test_another_process_behind_a_broken_connection_is_a_loss(joined):
    joined.handle([HungUp(ONE, "connection reset", broken=True)], 1.0)
    joined.handle([Dialed(ONE)], 1.1)
    ((_, why),) = lost(joined.handle([Heard(ONE, dataclasses.replace(status(ONE), run="another"))], 1.2))
    assert "it is another process than before" in why


def test_a_peer_that_is_silent_is_lost_at_its_deadline(joined):
    joined.handle([Heard(TWO, Progress(step=1))], 20.0)
    assert lost(joined.handle([Tick(Progress())], HEARTBEAT)) == []
    stands = joined.handle([Tick(Progress())], HEARTBEAT + 1.0)
    assert lost(stands) == [(ONE, "worker 1 at one:2222 stands still: it has not answered for 31 s.")]


def test_a_peer_that_fails_is_lost_with_its_own_words(joined):
    actions = joined.handle([Heard(ONE, failed(ONE, "KeyError: 'x'"))], 1.0)
    assert lost(actions) == [(ONE, "worker 1 at one:2222 failed: KeyError: 'x'")]


def test_a_peer_that_fails_for_a_lost_one_names_that_one(joined):
    actions = joined.handle([Heard(ONE, failed(ONE, "worker 2 stands still.", blamed=TWO))], 1.0)
    assert lost(actions) == [(TWO, "worker 2 stands still.")]


def test_a_peer_that_gave_this_task_up_says_so(joined):
    actions = joined.handle([Heard(ONE, failed(ONE, "worker 0 stands still.", blamed=ZERO))], 1.0)
    text = "worker 1 at one:2222 has ended, because it lost this task: worker 0 stands still."
    assert lost(actions) == [(ONE, text)]
    assert joined.lost.culprit == ZERO
    assert joined.own.blamed == ZERO  # or the others would blame the one that gave it up


def test_the_peer_that_this_task_waited_for_is_blamed(joined):
    joined.handle([OwnTaskEnded("waited for worker 1", blamed=ONE)], 1.0)
    joined.handle([Tick(Progress())], 1.0 + FAIL_SECS)
    assert (joined.own.state, joined.own.blamed) == (TaskState.FAILED, ONE)


@pytest.mark.parametrize("event", [Garbled(ONE, "it sends b'x'"), Heard(ONE, status(ONE, job="other"))])
def test_a_peer_that_becomes_another_is_lost(joined, event):
    assert [task for task, _ in lost(joined.handle([event], 1.0))] == [ONE]


def test_a_peer_that_is_done_may_leave(joined):
    joined.handle([Heard(ONE, status(ONE, state=TaskState.DONE))], 1.0)
    joined.handle([Heard(TWO, status(TWO))], 1e6)
    assert lost(joined.handle([Tick(Progress())], 1e6)) == []
    assert joined.handle([HungUp(ONE, "end")], 1e6) == []
    assert joined.lost is None
    # But nobody may wait for it.
    missing = joined.missing_values("program", [ONE])
    assert missing == {ONE: "worker 1 at one:2222 (done; it has not announced 'program')"}
    assert isinstance(joined.hopeless(missing, 1e6), errors.PeerLostError)


# Ending.


def test_who_is_done_says_so_and_loses_nobody(joined):
    assert joined.handle([OwnTaskEnded(None)], 1.0) == [Publish()]
    assert joined.own.state == TaskState.DONE
    assert joined.handle([HungUp(ONE, "reset")], 1.0) == []
    joined.handle([Tick(Progress(state=TaskState.TRAINING))], 2.0)
    assert joined.own.state == TaskState.DONE


def test_a_failure_is_told_after_a_moment(joined):
    assert joined.handle([OwnTaskEnded("ValueError: x")], 1.0) == []
    assert joined.wake_at == 1.0 + FAIL_SECS
    assert joined.handle([Tick(Progress())], joined.wake_at) == [Publish()]
    assert (joined.own.state, joined.own.error, joined.own.blamed) == (
        TaskState.FAILED,
        "ValueError: x",
        None,
    )


def test_a_failure_is_told_later_to_those_that_have_not_come_yet(watch):
    watch.handle([OwnTaskEnded("ValueError: x")], 1.0)
    assert watch.wake_at == 1.0 + LINGER_SECS


def test_a_failure_that_is_the_echo_of_a_lost_peer_is_told_as_that(joined):
    joined.handle([OwnTaskEnded("RuntimeError: connection closed by peer")], 1.0)
    actions = joined.handle([HungUp(ONE, "reset")], 1.1)
    assert kinds(actions) == [Log, Publish, Lose]
    assert logged(actions) == ["worker 0 fails, likely for that: RuntimeError: connection closed by peer"]
    assert joined.own.blamed == ONE


def test_two_that_fail_at_once_each_say_their_own(joined):
    joined.handle([OwnTaskEnded("ValueError: mine")], 1.0)
    assert joined.handle([Heard(ONE, failed(ONE, "ValueError: theirs"))], 1.1) == []
    assert joined.handle([HungUp(ONE, "end")], 1.2) == []
    joined.handle([Tick(Progress())], 1.0 + FAIL_SECS)
    assert joined.own.error == "ValueError: mine"


def test_announcements_add_up_and_are_published(joined):
    for key, value in (("a", 1), ("b", [2])):
        assert joined.handle([Announced(key, value)], 0.0) == [Publish()]
    assert joined.own.announcements == {"a": 1, "b": [2]}
    joined.handle([Heard(ONE, status(ONE, announcements={"a": 3}))], 0.0)
    joined.handle([Heard(TWO, Progress(state=TaskState.WAITING, waits_for="worker 1"))], 0.0)
    assert joined.missing_values("a", [ONE, TWO]) == {
        TWO: "worker 2 at two:2222 (waiting for worker 1; it has not announced 'a')"
    }


# Anything.


class AnyOrder(RuleBasedStateMachine):
    """Whatever comes, in any order that sockets allow: no exception, one call a peer, one loss at most."""

    ended = (TaskState.DONE, TaskState.FAILED)

    @initialize()
    def begin(self):
        self.watch = Watch(dataclasses.replace(status(ZERO), reached={}), ADDRESSES, HEARTBEAT)
        self.now = 0.0
        self.dialing, self.connected = set(), set()
        self.losses, self.finished = [], set()
        self.act(self.watch.start())

    def act(self, actions):
        for action in actions:
            match action:
                case Dial(task, delay):
                    assert delay >= 0
                    assert task not in self.dialing | self.connected
                    self.dialing.add(task)
                case Close(task):
                    self.connected.discard(task)
                case Lose(task, reason, _):
                    assert task not in self.finished
                    assert str(task) in reason
                    self.losses.append(task)

    def handle(self, event):
        self.act(self.watch.handle([event], self.now))

    @rule(
        seconds=st.floats(0.0, 2 * HEARTBEAT), state=st.sampled_from([TaskState.TRAINING, TaskState.WAITING])
    )
    def tick(self, seconds, state):
        self.now += seconds
        self.handle(Tick(Progress(state=state)))

    @precondition(lambda self: self.dialing)
    @rule(data=st.data(), works=st.booleans())
    def dialed(self, data, works):
        task = data.draw(st.sampled_from(sorted(self.dialing, key=str)))
        self.dialing.remove(task)
        if works:
            self.connected.add(task)
        self.handle(Dialed(task) if works else DialFailed(task, "refused"))

    @precondition(lambda self: self.connected)
    @rule(
        data=st.data(),
        news=st.sampled_from(
            [
                *(lambda task, state=state: status(task, state=state) for state in TaskState),
                lambda task: status(task, reached={}),
                lambda task: status(task, job="other"),
                lambda task: status(task, versions={}),
                lambda task: failed(task, "worker 0, 1, 2 x", blamed=ZERO),
                lambda task: failed(task, "it lost worker 9", blamed=Task("worker", 9)),
                lambda task: Progress(),
            ]
        ),
    )
    def heard(self, data, news):
        task = data.draw(st.sampled_from(sorted(self.connected, key=str)))
        said = news(task)
        if task in self.finished:
            return  # it has said all that it will
        self.handle(Heard(task, said))
        if isinstance(said, Status) and said.state in self.ended and str(task) in self.watch.own.reached:
            self.finished.add(task)

    @precondition(lambda self: self.connected)
    @rule(data=st.data(), garbled=st.booleans())
    def broke_off(self, data, garbled):
        task = data.draw(st.sampled_from(sorted(self.connected, key=str)))
        if garbled and task in self.finished:
            return
        self.connected.remove(task)
        self.handle(Garbled(task, "it sends b'x'") if garbled else HungUp(task, "reset"))

    def teardown(self):
        entries = [*replay(str(self.watch.log), ROSTER_CLASSES)]
        assert all(each.error is None and each.actions == each.then for each in entries)

    @rule(error=st.none() | st.just("ValueError: x"))
    def end(self, error):
        self.handle(OwnTaskEnded(error))

    @invariant()
    def every_peer_is_called_connected_or_gone(self):
        for task in (ONE, TWO):
            gone = str(task) in self.watch.own.reached
            assert gone or task in self.dialing | self.connected

    @invariant()
    def at_most_one_is_lost_and_then_all_is_over(self):
        assert len(self.losses) <= 1
        assert (self.watch.lost is not None) == bool(self.losses)
        if self.losses:
            assert self.watch.own.state == TaskState.FAILED
            assert self.watch.wake_at == float("inf")


TestAnyOrder = AnyOrder.TestCase


ENDED_EARLY = "worker 0 has ended its program in the ordinary way (exit code 0), while worker 1 is in fit."
# What happened, as worker 0 hears it; its reason to end, and the task that is to blame.
NAMED = {
    "a worker failed": (failed(ONE, "ValueError: no"), "worker 1 at one:2222 failed: ValueError: no", ONE),
    "a worker lost another": (failed(ONE, "worker 2 has ended", TWO), "worker 2 has ended", TWO),
    "a worker lost this one": (
        failed(ONE, "MissingPeerError: worker 0 is late", ZERO),
        "worker 1 at one:2222 has ended, because it lost this task: MissingPeerError: worker 0 is late",
        ZERO,
    ),
}


@pytest.mark.parametrize("what", NAMED)
def test_who_is_named(joined, what):
    heard, reason, culprit = NAMED[what]
    joined.handle([Heard(ONE, heard)], 1.0)
    assert (joined.lost.why, joined.lost.culprit) == (reason, culprit)


def test_who_has_come_to_its_end_is_not_lost_but_ended_first(joined):
    """The program of this worker is over, and worker 1 has more to do."""
    joined.handle([Announced(ENDING, True)], 1.0)
    joined.handle([Heard(ONE, failed(ONE, ENDED_EARLY, ZERO))], 2.0)
    assert (joined.lost.why, joined.lost.culprit) == (ENDED_EARLY, ZERO)


def test_a_third_worker_names_who_ended_first(joined):
    text = "worker 2 has ended its program in the ordinary way"
    joined.handle([Heard(ONE, failed(ONE, text, TWO))], 1.0)
    assert (joined.lost.task, joined.lost.culprit) == (TWO, TWO)


# An elastic job goes on.


@pytest.fixture
def elastic():
    own = dataclasses.replace(status(ZERO), reached={}, progress=Progress())
    watch = Watch(own, ADDRESSES, HEARTBEAT, elastic=True)
    for peer in (ONE, TWO):
        watch.handle([Dialed(peer), Heard(peer, status(peer, membership=GroupRecord()))], 0.0)
    return watch


def test_whoever_ends_without_a_word_has_certainly_gone_and_may_come_back(elastic):
    assert {str(member) for member in elastic.members()} == {"worker 1", "worker 2"}
    actions = elastic.handle([HungUp(ONE, "end of the connection")], 1.0)
    reason = "worker 1 at one:2222 has ended without a word (end of the connection)."
    assert Leave(ONE, reason, "run of worker 1", certain=True) in actions
    assert Dial(ONE, REJOIN_SECS) in actions
    assert not any(isinstance(action, Lose) for action in actions)
    assert [str(member) for member in elastic.members()] == ["worker 2"]
    again = status(ONE, run="another run", membership=GroupRecord())
    elastic.handle([Dialed(ONE), Heard(ONE, again)], 2.0)
    assert Member(ONE, "another run") in elastic.members()


def test_whoever_is_silent_has_not_certainly_gone(elastic):
    elastic.handle([Heard(TWO, Progress())], 30.0)
    left = [each for each in elastic.handle([Tick(Progress())], 31.0) if isinstance(each, Leave)]
    assert [(each.task, each.certain) for each in left] == [(ONE, False)]


def test_an_error_of_a_peer_is_its_own(elastic):
    news = dataclasses.replace(failed(ONE, "boom"), membership=GroupRecord())
    (left,) = [each for each in elastic.handle([Heard(ONE, news)], 1.0) if isinstance(each, Leave)]
    assert left.certain
    assert left.why == "worker 1 at one:2222 failed: boom"
    assert not elastic.ended
