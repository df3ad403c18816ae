"""What hooks see of a session, and the loop around it."""

from __future__ import annotations

from collections import namedtuple
from itertools import repeat
from typing import Any

import numpy as np
import pytest
from hooks_fakes import Counter, TraceHook

from muster.distribute.engine._state_store import ArrayStore
from muster.estimator import SessionRunArgs, SessionRunHook
from muster.estimator.loop._run_loop import run_loop
from muster.estimator.session._session import Session
from muster.program import Output, TrainOp

Pair = namedtuple("Pair", ["first", "second"])


def _after_one_run() -> Session:
    counter = Counter(start=4, values=[0.5])
    with counter.training() as training:
        training.run()
    return counter.session


@pytest.mark.parametrize(
    ("fetches", "expected"),
    [
        ("loss", 0.5),
        ("loss:0", 0.5),
        (Output("double"), 8),
        ("p", 1.0),
        (["loss", "double"], [0.5, 8]),
        (("loss", {"d": Output("double")}), (0.5, {"d": 8})),
        (Pair("loss", "p"), Pair(0.5, 1.0)),
        (None, None),
        ([], []),
    ],
)
def test_run_reads_in_the_structure_of_the_fetches(fetches: Any, expected: Any) -> None:
    found = _after_one_run().run(fetches)
    assert found == expected
    assert type(found) in (type(expected), np.float32, np.int64)


def test_outputs_are_read_before_variables_of_the_same_name() -> None:
    session = Session(ArrayStore({"loss": np.float32(7)}))
    assert session.run("loss") == 7
    session.advance({"loss": np.float32(7)}, {"loss": np.float32(8)})
    assert session.run("loss") == 8
    assert session.get_variable_value("loss") == 7


class _Shared(ArrayStore):
    """Variables that others advance, too."""

    def renew(self) -> bool:
        self.give({"global_step": np.int64(150), "loss": np.float32(7)})
        return True


def test_the_global_step_of_all_workers_is_read_once_it_is_renewed() -> None:
    session = Session(_Shared({"global_step": np.int64(147)}))
    session.advance({"global_step": np.int64(148)}, {"loss": np.float32(8), "global_step": np.int64(148)})
    assert session.run("global_step") == 148
    session.renew()
    assert session.run(["global_step", "loss"]) == [150, 8]


class _ReadsAtTheEnd(SessionRunHook):
    found = None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        run_context.request_stop()

    def end(self, session: Any) -> None:
        self.found = session.run("global_step")


def test_a_hook_reads_what_all_workers_have_come_to_when_it_stops() -> None:
    session = Session(_Shared({"global_step": np.int64(147)}))
    after = {"global_step": np.int64(148)}
    run_loop(session, lambda *_: (after, after), repeat(1), hooks=[hook := _ReadsAtTheEnd()])
    assert hook.found == 150


def test_an_unknown_name_is_an_error_that_lists_the_names() -> None:
    session = _after_one_run()
    match = r"'nope'. Outputs: double, global_step, loss, v, vec. Variables: 2step, global_step, p."
    with pytest.raises(KeyError, match=match):
        session.run({"a": "nope"})
    with pytest.raises(KeyError, match="'nope'"):
        session.output("nope")
    with pytest.raises(KeyError, match="There are: 2step, global_step, p"):
        session.get_variable_value("loss")


def test_a_fetch_must_be_a_name() -> None:
    with pytest.raises(TypeError, match="A fetch must be a name.*name_output"):
        _after_one_run().run([np.float32(3)])


def test_a_train_op_is_no_fetch() -> None:
    with pytest.raises(TypeError, match=r"run the train_op of 'Adam'.*train_op=tf.group"):
        _after_one_run().run([TrainOp("Adam")])


def test_names_are_not_judged_while_they_are_unknown() -> None:
    Session(ArrayStore({})).require("loss")
    with pytest.raises(KeyError):
        Session(ArrayStore({}), output_names=["loss"]).require("nope")


def test_variables_are_the_paths_of_the_state() -> None:
    assert Session(ArrayStore({"a/kernel": np.zeros(2), "b": np.zeros(3)})).variables() == ("a/kernel", "b")


def test_only_a_session_that_can_save_saves() -> None:
    with pytest.raises(RuntimeError, match="nowhere to save step 3"):
        Session(ArrayStore({})).save(3)


def test_saving_hands_over_the_state_of_the_last_step() -> None:
    saved: list[Any] = []
    session = Session(ArrayStore({"w": 1}), save=lambda *args: saved.append(args))
    session.advance({"w": 2}, {})
    session.save(1, wait=True)
    ((store, *others),) = saved
    assert (store.peek(), others) == ({"w": 2}, [1, True, None])
    session.save(1, directory="file:///elsewhere")
    assert saved[1][1:] == (1, False, "/elsewhere")


def test_nothing_is_read_or_saved_before_the_checks_on_the_step_have_passed() -> None:
    def refuse(session: Session) -> None:
        raise ArithmeticError(f"step {session.global_step}")

    saved: list[Any] = []
    session = Session(ArrayStore({"w": np.zeros(2)}), global_step=3, save=lambda *args: saved.append(args))
    session.add_check(refuse)
    with pytest.raises(ArithmeticError, match="step 3"):
        session.save(3)
    with pytest.raises(ArithmeticError, match="step 3"):
        session.run("w")
    assert saved == []


def test_the_step_is_counted_on_the_host_unless_told_otherwise() -> None:
    class Unreadable:
        def __array__(self, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError("the step was read from the device")

    session = Session(ArrayStore({}), global_step=5)
    run_loop(session, lambda state, reads, batch: (state, {"global_step": Unreadable()}), iter(range(3)))
    assert session.global_step == 8
    session = Session(ArrayStore({}), global_step=5, count_steps=lambda outputs: int(outputs["global_step"]))
    run_loop(session, lambda state, reads, batch: (state, {"global_step": np.int64(batch)}), iter([7, 9]))
    assert session.global_step == 9


def test_a_variable_that_was_read_keeps_its_value_and_lets_the_next_step_reuse_its_memory() -> None:
    import jax
    import jax.numpy as jnp

    add_one = jax.jit(lambda state, reads, batch: ({"w": state["w"] + 1}, {"loss": batch}), donate_argnums=0)
    session = Session(ArrayStore({"w": jnp.zeros(1024)}))
    run_loop(session, add_one, iter([jnp.float32(0)]))
    pointer = session.state["w"].unsafe_buffer_pointer()
    value = session.get_variable_value("w")
    session.advance(*add_one(session.state, (), jnp.float32(0)))
    np.testing.assert_array_equal(value, np.ones(1024))
    assert session.state["w"].unsafe_buffer_pointer() == pointer


class _Asks(SessionRunHook):
    """Asks for what it is told, and keeps what it gets."""

    def __init__(self, fetches: Any, **others: Any) -> None:
        self._args = SessionRunArgs(fetches, **others)
        self.got: list[Any] = []

    def before_run(self, run_context: Any) -> SessionRunArgs:
        assert run_context.original_args == SessionRunArgs(None)
        return self._args

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.got.append(run_values)


def test_each_hook_gets_what_it_asked_for() -> None:
    counter = Counter()
    one, other, nothing = _Asks("double"), _Asks({"v": "v"}), _Silent()
    run_loop(counter.session, counter.step, iter([0, 1]), [one, nothing, other])
    assert [values.results for values in one.got] == [0, 2]
    assert [values.results for values in other.got] == [{"v": 0}, {"v": 1}]
    assert [values.results for values in nothing.got] == [None, None]
    assert (one.got[0].options, one.got[0].run_metadata) == (None, None)


class _Silent(SessionRunHook):
    """Asks for nothing, and keeps what it gets."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.got.append(run_values)


def test_a_hook_cannot_feed() -> None:
    counter = Counter()
    with pytest.raises(ValueError, match="reads its batch and nothing else"):
        run_loop(counter.session, counter.step, repeat(None), [_Asks("loss", feed_dict={"x": 1})])


def test_a_method_that_is_put_on_an_instance_is_called() -> None:
    counter, hook, calls = Counter(), SessionRunHook(), []
    hook.after_run = lambda *args: calls.append(args)  # type: ignore[method-assign]
    run_loop(counter.session, counter.step, iter([0, 1]), [hook])
    assert len(calls) == 2


def test_a_stop_requested_before_the_first_run_prevents_it() -> None:
    class Stop(SessionRunHook):
        def after_create_session(self, session: Any, coord: Any) -> None:
            assert not coord.should_stop()
            coord.request_stop()

    counter, events = Counter(), []
    run_loop(counter.session, counter.step, repeat(None), [Stop(), TraceHook("a", events)])
    assert events == [["a", "begin"], ["a", "after_create_session"], ["a", "end"]]
    assert counter.session.should_stop()


def test_an_error_of_the_step_propagates_and_end_is_not_called() -> None:
    def fail(state: Any, reads: Any, batch: Any) -> Any:
        raise ZeroDivisionError("canned")

    events: list[Any] = []
    with pytest.raises(ZeroDivisionError, match="canned"):
        run_loop(Session(ArrayStore({})), fail, repeat(None), [TraceHook("a", events)])
    assert events == [["a", "begin"], ["a", "after_create_session"], ["a", "before_run"]]


@pytest.mark.parametrize("fails_in", ["begin", "after_create_session", "end"])
def test_resources_are_closed_however_a_session_ends(fails_in: str) -> None:
    counter, closed = Counter(), []
    counter.session.resources.callback(closed.append, True)
    hook = SessionRunHook()

    def fail(*args: Any) -> None:
        raise RuntimeError("canned")

    setattr(hook, fails_in, fail)
    with pytest.raises(RuntimeError, match="canned"):
        run_loop(counter.session, counter.step, iter([0]), [hook])
    assert closed == [True]
