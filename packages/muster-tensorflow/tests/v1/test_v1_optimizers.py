"""The optimizers of ``tf.compat.v1.train`` update as TensorFlow's did."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster_tensorflow as tf
import recorded
from departures import Departure, Json
from muster.program.trace._program import Program
from recorded import IN_REPOSITORY, cases, load

train = tf.compat.v1.train


def run_steps(make_optimizer: Any, start: Any, gradients: list[Any]) -> tuple[list[np.ndarray], Any]:
    """Return the weights after a step on each gradient, and the global step."""

    def step(gradient: Any) -> tuple[dict[str, Any], None]:
        global_step = train.get_or_create_global_step()
        weights = tf.Variable(np.asarray(start, np.float32), name="w")
        make_optimizer().apply_gradients([(gradient, weights)], global_step)
        return {}, None

    shape = jax.ShapeDtypeStruct(np.shape(start), jnp.float32)
    program = Program(step, shape)
    state, seen = program.initial, []
    run = jax.jit(program.step)
    for gradient in gradients:
        state, _ = run(state, jnp.asarray(gradient, jnp.float32))
        seen.append(np.asarray(state["w"]))
    return seen, int(state["global_step"])


# Optimizers but for the base class, and the one around another.
NAMES = [
    n for n in vars(train) if n.endswith("Optimizer") and n not in ("Optimizer", "SyncReplicasOptimizer")
]


def is_dense_update(case: dict[str, Any]) -> bool:
    return case["name"].startswith("v1.") and "/dense/" in case["name"]


def _computed_in_float64(asked: Json, expect: Json) -> Json | None:
    if "is a double tensor" not in expect.get("error", {}).get("message", ""):
        return None
    for case in load("optimizers", IN_REPOSITORY):  # the same in float32
        if case["input"] == asked | {"dtype": "float32"}:
            return case["expect"]
    return None


DEPARTURES = [
    Departure("The proximal optimizers take gradients of any floating-point dtype.", _computed_in_float64)
]


def test_all_departures_are_needed() -> None:
    assert recorded.unused("optimizers", DEPARTURES) == []


@pytest.mark.parametrize("case", cases("optimizers", is_dense_update, DEPARTURES))
def test_updates_are_those_of_tensorflow(case: dict[str, Any]) -> None:
    given = case["input"]
    make = getattr(train, given["optimizer"]["class"].rpartition(".")[2])
    kwargs = {"learning_rate": 0.001} | given["optimizer"]["kwargs"]
    seen, _ = run_steps(lambda: make(**kwargs), given["start"], given["gradients"])
    for ours, theirs in zip(seen, case["expect"]["weights_after_step"], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


def test_there_are_cases_for_every_optimizer() -> None:
    all_cases = load("optimizers", IN_REPOSITORY)
    tested = {case["input"]["optimizer"]["class"] for case in filter(is_dense_update, all_cases)}
    assert {name.rpartition(".")[2] for name in tested} == set(NAMES)


def test_a_rate_that_the_step_computes_is_used_at_that_step() -> None:
    def optimizer() -> Any:
        step = train.get_or_create_global_step()
        return train.GradientDescentOptimizer(train.exponential_decay(1.0, step, 1, 0.5))

    seen, step = run_steps(optimizer, [0.0], [[1.0]] * 3)
    np.testing.assert_allclose(np.ravel(seen), [-1.0, -1.5, -1.75])
    assert step == 3


@pytest.mark.parametrize("name", NAMES)
def test_a_constant_rate_is_no_variable(name: str) -> None:
    def step(x: Any) -> tuple[dict[str, Any], None]:
        kwargs = {"momentum": 0.9} if name == "MomentumOptimizer" else {}
        getattr(train, name)(0.5, **kwargs).minimize(x * tf.Variable(1.0, name="w"))
        return {}, None

    paths = [variable.path for variable in Program(step, jnp.float32(3.0)).variables]
    assert "w" in paths
    assert not [path for path in paths if "learning_rate" in path]


def test_a_restart_trains_with_the_constant_that_the_program_now_gives() -> None:
    def step_with(rate: float) -> Any:
        def step(x: Any) -> tuple[dict[str, Any], None]:
            train.GradientDescentOptimizer(rate).minimize(x * tf.Variable(1.0, name="w"))
            return {}, None

        return step

    x = jnp.float32(1.0)
    before = Program(step_with(0.5), x)
    state, _ = before.step(before.initial, x)
    after = Program(step_with(0.125), x, known=state)
    state, _ = after.step(after.initial, x)
    assert float(state["w"]) == 1.0 - 0.5 - 0.125


def test_momentum_keeps_the_learning_rate_outside() -> None:
    def optimizer() -> Any:
        step = train.get_or_create_global_step()
        return train.MomentumOptimizer(train.piecewise_constant(step, [0], [1.0, 0.1]), momentum=0.5)

    seen, _ = run_steps(optimizer, [0.0], [[1.0]] * 2)
    np.testing.assert_allclose(np.ravel(seen), [-1.0, -1.15])  # Keras' SGD would be at -1.6


def test_nesterov_momentum_looks_ahead() -> None:
    seen, _ = run_steps(lambda: train.MomentumOptimizer(0.1, 0.9, use_nesterov=True), [0.0], [[1.0]] * 2)
    np.testing.assert_allclose(np.ravel(seen), [-0.19, -0.19 - 0.271], rtol=1e-6)


def test_gradients_of_none_leave_their_variable_alone() -> None:
    def step(x: Any) -> tuple[dict[str, Any], None]:
        a, b = tf.Variable(1.0, name="a"), tf.Variable(1.0, name="b")
        optimizer = train.GradientDescentOptimizer(0.5)
        (gradient, _), _ = optimizer.compute_gradients(x * a * b)
        optimizer.apply_gradients([(gradient, a), (None, b)])
        return {}, None

    program = Program(step, jnp.float32(3.0))
    state, _ = jax.jit(program.step)(program.initial, jnp.float32(3.0))
    assert (float(state["a"]), float(state["b"])) == (-0.5, 1.0)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [([], "No variables provided"), ([None], "No gradients provided for any variable: w")],
)
def test_no_gradients_at_all_are_refused(pairs: list[None], message: str) -> None:
    def step(x: Any) -> tuple[dict[str, Any], None]:
        w = tf.Variable(1.0, name="w")
        train.GradientDescentOptimizer(0.5).apply_gradients([(each, w) for each in pairs])
        return {}, None

    with pytest.raises(ValueError, match=message):
        Program(step, jnp.float32(3.0))


def test_minimize_trains_what_it_is_told_to() -> None:
    def step(x: Any) -> tuple[dict[str, Any], None]:
        a, b = tf.Variable(1.0, name="a"), tf.Variable(1.0, name="b")
        adam = train.AdamOptimizer(0.5)
        of_a_graph = {"gate_gradients": adam.GATE_NONE, "colocate_gradients_with_ops": True}
        assert len(adam.compute_gradients(x * a * b, [b], **of_a_graph)) == 1
        adam.minimize(x * a * b, train.get_global_step(), var_list=[b], **of_a_graph)
        assert train.AdamOptimizer().get_name() == "Adam"
        return {}, None

    program = Program(step, jnp.float32(3.0))
    state, _ = jax.jit(program.step)(program.initial, jnp.float32(3.0))
    assert float(state["a"]) == 1.0
    assert float(state["b"]) == pytest.approx(0.5, abs=1e-5)
    assert int(state["global_step"]) == 1


@pytest.mark.parametrize(
    "make", [lambda: train.AdamOptimizer(0.1), lambda: train.MomentumOptimizer(0.1, 0.9)]
)
def test_eager_code_steps_as_a_model_fn_does(make: Any, tmp_path: Any) -> None:
    gradients = [[1.0, -2.0], [0.5, 0.25]]
    expected, _ = run_steps(make, [3.0, 4.0], gradients)
    before = int(train.get_or_create_global_step())

    optimizer, weights = make(), tf.Variable([3.0, 4.0])
    step = tf.function(lambda gradient: optimizer.apply_gradients([(gradient, weights)]) and None)
    optimizer.apply_gradients(
        zip([tf.constant(gradients[0])], [weights], strict=True), train.get_or_create_global_step()
    )
    np.testing.assert_allclose(weights.numpy(), expected[0], rtol=1e-6)
    step(tf.constant(gradients[1]))
    np.testing.assert_allclose(weights.numpy(), expected[1], rtol=1e-6)
    assert int(train.get_global_step()) == before + 1

    checkpoint = tf.train.Checkpoint(optimizer=optimizer, weights=weights)
    path = checkpoint.save(str(tmp_path / "ckpt"))
    optimizer.apply_gradients([(tf.constant(gradients[0]), weights)])
    after = weights.numpy()
    checkpoint.restore(path)
    optimizer.apply_gradients([(tf.constant(gradients[0]), weights)])
    np.testing.assert_array_equal(weights.numpy(), after)


def test_eager_code_minimizes_what_a_function_returns() -> None:
    used, other = tf.Variable(2.0), tf.Variable(5.0)
    optimizer, counter = train.GradientDescentOptimizer(0.1), tf.Variable(0)
    optimizer.minimize(lambda: used * used, counter)
    assert float(used) == pytest.approx(1.6)
    assert (float(other), int(counter)) == (5, 1)
    with pytest.raises(RuntimeError, match="should be a function"):
        optimizer.minimize(used * used)
