"""User code becomes a pure step, which uses the state that is passed in."""

import gc
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster
from muster._errors import GradientError, OutsideVariableError, TraceError, VariableMismatchError
from muster._keras import keras
from muster.distribute.engine._compiled import compiled
from muster.program import Output, apply_gradients, get_or_create_global_step, minimize, name_output
from muster.program.trace._outputs import output_of
from muster.program.trace._program import Program

layers = keras.layers
CLASSES = 3
RNG = np.random.default_rng(0)
X = RNG.random((16, 12), dtype=np.float32)
Y = RNG.integers(0, CLASSES, 16)


class Block(layers.Layer):
    """A layer whose parts are built while Keras infers shapes."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = layers.Dense(8), layers.BatchNormalization(), layers.Dense(CLASSES)

    def call(self, x, training=False):
        return self.last(self.norm(self.first(x), training=training))


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.first, self.drop, self.last = layers.Dense(8), layers.Dropout(0.3), layers.Dense(CLASSES)

    def call(self, x, training=False):
        return self.last(self.drop(self.first(x), training=training))


def sequential():
    return keras.Sequential([layers.Dense(8, activation="relu"), layers.Dropout(0.2), layers.Dense(CLASSES)])


def functional():
    inputs = keras.Input((12,))
    return keras.Model(inputs, layers.Dense(CLASSES)(layers.BatchNormalization()(layers.Dense(8)(inputs))))


def nested():
    inputs = keras.Input((12,))
    return keras.Model(inputs, Block()(inputs))


def nested_twice():
    return keras.Sequential([functional(), sequential()])


def recurrent():
    return keras.Sequential(
        [layers.Reshape((4, 3)), layers.LSTM(5, dropout=0.1, recurrent_dropout=0.1), layers.Dense(CLASSES)]
    )


def bidirectional():
    return keras.Sequential(
        [layers.Reshape((4, 3)), layers.Bidirectional(layers.GRU(5)), layers.Dense(CLASSES)]
    )


MODELS = [sequential, functional, Subclassed, nested, nested_twice, recurrent, bidirectional]


def cross_entropy(labels, logits):
    return jnp.mean(
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)(labels, logits)
    )


def training(model, optimizer, **kwargs):
    """A step that trains what ``model()`` builds with what ``optimizer()`` builds."""

    def step(x, y):
        loss = cross_entropy(y, model()(x, training=True))
        return {"loss": loss}, minimize(optimizer(), loss, get_or_create_global_step(), **kwargs)

    return step


def sgd():
    return keras.optimizers.SGD(0.1)


def run(program, steps, state=None, x=X, y=Y):
    step = jax.jit(program.step)
    state = program.initial if state is None else state
    losses = []
    for _ in range(steps):
        state, outputs = step(state, x, y)
        losses.append(float(outputs["loss"]))
    return state, losses


@pytest.mark.samples("sequential")
@pytest.mark.parametrize("model", MODELS)
def test_all_zero_state_gives_the_logarithm_of_the_number_of_classes(model):
    program = Program(training(model, sgd), X[:2], Y[:2])
    zeros = {path: jnp.zeros_like(value) for path, value in program.initial.items()}
    _, outputs = jax.jit(program.step)(zeros, X, Y)
    assert float(outputs["loss"]) == pytest.approx(math.log(CLASSES), abs=1e-6)


@pytest.mark.samples("Subclassed")
@pytest.mark.parametrize("model", MODELS)
def test_training_lowers_the_loss_and_counts_its_steps(model):
    program = Program(training(model, lambda: keras.optimizers.Adam(0.03)), X, Y, seed=1)
    state, losses = run(program, 60)
    assert losses[-1] < 0.7 * losses[0]
    assert int(state["global_step"]) == 60


def test_the_losses_are_those_of_keras_trained_by_hand():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((12,)), layers.Dense(8, activation="tanh"), layers.Dense(CLASSES)])
    program = Program(
        training(lambda: keras.Sequential([layers.Dense(8, activation="tanh"), layers.Dense(CLASSES)]), sgd),
        X,
        Y,
    )
    weights = [jnp.array(v.value) for v in model.trainable_variables]
    state = dict(program.initial)
    state.update(zip((v.path for v in program.variables if v.trainable), weights, strict=True))

    def loss_of(weights):
        (w1, b1, w2, b2) = weights
        return cross_entropy(Y, jnp.tanh(X @ w1 + b1) @ w2 + b2)

    expected = []
    for _ in range(20):
        loss, grads = jax.value_and_grad(loss_of)(weights)
        weights = [w - 0.1 * g for w, g in zip(weights, grads, strict=True)]
        expected.append(float(loss))
    np.testing.assert_allclose(run(program, 20, state)[1], expected, rtol=1e-5)


def test_paths_are_the_same_at_every_trace_and_the_session_keeps_its_counters():
    before = keras.layers.Dense(2).name
    first = Program(training(sequential, sgd), X, Y)
    second = Program(training(sequential, sgd), X, Y)
    assert [v.path for v in first.variables] == [v.path for v in second.variables]
    assert {"sequential/dense/kernel", "sequential/dense_1/bias", "global_step"} <= set(first.initial)
    assert (
        int(keras.layers.Dense(2).name.split("_")[1])
        == (int(before.split("_")[1]) if "_" in before else 0) + 1
    )


def test_equal_paths_are_made_unique():
    def step(x):
        a, b = keras.Variable(1.0, name="v"), keras.Variable(2.0, name="v")
        return {"sum": a + b + x}, None

    assert list(Program(step, jnp.zeros(())).initial) == ["v", "v_1"]


def test_a_seed_makes_initial_values_the_same_and_leaves_python_randomness_alone():
    import random

    random.seed(5)
    expected = random.random()
    random.seed(5)
    one, two, other = (Program(training(sequential, sgd), X, Y, seed=s).initial for s in (7, 7, 8))
    assert random.random() == expected
    kernel = "sequential/dense/kernel"
    np.testing.assert_array_equal(one[kernel], two[kernel])
    assert not np.array_equal(one[kernel], other[kernel])


def test_known_values_replace_initializers_where_the_shape_agrees():
    kernel, bias = np.full((12, 8), 0.5, np.float32), np.zeros(3, np.float32)
    known = {"sequential/dense/kernel": kernel, "sequential/dense/bias": bias}
    initial = Program(training(sequential, sgd), X, Y, known=known).initial
    np.testing.assert_array_equal(initial["sequential/dense/kernel"], kernel)
    assert initial["sequential/dense/bias"].shape == (8,)


def test_the_recording_run_changes_no_state():
    program = Program(training(functional, sgd), X, Y)
    mean = next(value for path, value in program.initial.items() if "moving_mean" in path)
    assert int(program.initial["global_step"]) == 0
    np.testing.assert_array_equal(mean, 0)


def test_batch_normalization_and_seeds_advance_with_the_state():
    program = Program(training(nested_twice, sgd), X, Y)
    state, _ = run(program, 1)
    moving = [p for p in state if "moving" in p or "seed" in p]
    assert len(moving) == 3
    assert all(not np.array_equal(state[p], program.initial[p]) for p in moving)


def test_one_step_serves_batches_of_several_sizes():
    program = Program(training(functional, sgd), X, Y)
    state, _ = run(program, 1)
    state, losses = run(program, 1, state, X[:5], Y[:5])
    assert int(state["global_step"]) == 2
    assert math.isfinite(losses[0])


def test_variables_of_the_users_own_computed_from_constants_and_from_each_other():
    def step(x, y):
        w = keras.Variable(jnp.ones((12, CLASSES)) * 0.25, name="w")
        average = keras.Variable(w.value + 1, trainable=False, name="average")
        average.assign(average * 0.5 + w * 0.5)
        loss = cross_entropy(y, x @ w)
        return {"loss": loss}, minimize(sgd(), loss)

    program = Program(step, X, Y)
    np.testing.assert_allclose(program.initial["w"], 0.25)
    np.testing.assert_allclose(program.initial["average"], 1.25)
    state, _ = run(program, 1)
    np.testing.assert_allclose(state["average"], 0.75)


def test_an_initial_value_that_depends_on_the_batch_is_an_error():
    def step(x):
        v = keras.Variable(jnp.mean(x, axis=0), name="centre")
        return {"d": x - v}, None

    with pytest.raises(TraceError, match="centre.*depends on the input"):
        Program(step, X)


def test_two_optimizers_on_variables_of_their_own():
    def step(x, y):
        a, b = keras.Variable(2.0, name="a"), keras.Variable(3.0, name="b")
        loss = (a * b - 1.0) ** 2 + 0 * jnp.sum(x)
        minimize(keras.optimizers.SGD(0.01), loss, var_list=[a])
        minimize(keras.optimizers.SGD(0.1), loss, get_or_create_global_step(), var_list=[b])
        return {"loss": loss}, None

    state, _ = run(Program(step, X, Y), 1)
    assert float(state["a"]) == pytest.approx(2 - 0.01 * 2 * 5 * 3)
    assert float(state["b"]) == pytest.approx(3 - 0.1 * 2 * 5 * 2)
    assert int(state["global_step"]) == 1


@pytest.mark.samples("2.0")
@pytest.mark.parametrize("scale", [2.0, 2.0**126])
def test_loss_scaling_takes_good_steps_and_skips_bad_ones(scale):
    def optimizer():
        return keras.optimizers.LossScaleOptimizer(sgd(), initial_scale=scale, dynamic_growth_steps=2)

    plain, _ = run(Program(training(functional, sgd), X, Y, seed=3), 1)
    program = Program(training(functional, optimizer), X * 1e3, Y, seed=3)
    state, _ = run(program, 1, x=X if scale == 2.0 else X * 1e30)
    kernel = "dense/kernel"
    factor = next(p for p in state if p.endswith("dynamic_scale"))
    if scale == 2.0:
        np.testing.assert_allclose(state[kernel], plain[kernel], rtol=1e-5)
        assert float(state[factor]) == scale
    else:
        np.testing.assert_array_equal(state[kernel], program.initial[kernel])
        assert float(state[factor]) == scale / 2


def test_mixed_precision():
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        program = Program(training(functional, lambda: keras.optimizers.Adam(0.03)), X, Y, seed=1)
        state, losses = run(program, 40)
    finally:
        keras.config.set_dtype_policy(before)
    assert state["dense/kernel"].dtype == jnp.float32
    assert losses[-1] < losses[0]


def test_schedules_clipping_averages_and_accumulation():
    def optimizer():
        return keras.optimizers.Adam(
            keras.optimizers.schedules.ExponentialDecay(0.05, 5, 0.5), clipnorm=1.0, use_ema=True
        )

    _, losses = run(Program(training(sequential, optimizer), X, Y, seed=1), 30)
    assert losses[-1] < losses[0]
    accumulating = lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)  # noqa: E731
    program = Program(training(functional, accumulating), X, Y)
    once, _ = run(program, 1)
    twice, _ = run(program, 2)
    np.testing.assert_array_equal(once["dense/kernel"], program.initial["dense/kernel"])
    assert not np.array_equal(twice["dense/kernel"], once["dense/kernel"])


def test_regularization_and_activity_losses_are_collected():
    def step(x, y):
        model = keras.Sequential(
            [layers.Dense(4, kernel_regularizer="l2"), layers.ActivityRegularization(l2=0.1)]
        )
        model(x)
        return {"count": len(model.losses), "loss": sum(model.losses)}, None

    program = Program(step, X, Y)
    _, outputs = jax.jit(program.step)(program.initial, X, Y)
    assert int(outputs["count"]) == 2
    assert float(outputs["loss"]) > 0


def test_metrics_are_local_variables():
    def step(x, y):
        accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
        accuracy.update_state(y, layers.Dense(CLASSES)(x))
        return {"accuracy": accuracy.result()}, None

    program = Program(step, X, Y)
    assert {v.path for v in program.variables if v.local} == {"accuracy/total", "accuracy/count"}
    assert {v.path for v in program.variables if not v.local} == {"dense/kernel", "dense/bias"}


def test_a_step_that_evaluates_updates_metrics_only():
    def step(x, y):
        loss = cross_entropy(y, functional()(x, training=True))
        mean = keras.metrics.Mean(name="mean")
        mean.update_state(loss)
        return {"loss": mean.result()}, minimize(sgd(), loss, get_or_create_global_step())

    program = Program(step, X, Y, local_updates_only=True)
    state, _ = run(program, 2)
    assert {p for p in state if not np.array_equal(state[p], program.initial[p])} == {
        "mean/total",
        "mean/count",
    }


def test_named_outputs():
    def step(x):
        total = jnp.sum(x)
        first, second = name_output("total", total), name_output("total", total * 2)
        return {"value": x * 2}, (first, second, output_of(total, "other"), output_of(x, "x"))

    program = Program(step, X)
    assert program.static == (Output("total"), Output("total_1"), Output("total"), Output("x"))
    _, outputs = jax.jit(program.step)({}, X)
    assert set(outputs) == {"value", "total", "total_1", "x"} == program.outputs.keys()
    assert float(outputs["total_1"]) == pytest.approx(2 * X.sum(), rel=1e-5)


def test_variables_built_outside_are_named():
    outside = layers.Dense(CLASSES, name="outside")
    outside.build((None, 12))
    with pytest.raises(OutsideVariableError, match="outside/kernel.*built outside"):
        Program(training(lambda: outside, sgd), X, Y)
    stray = keras.Variable(1.0, name="stray")
    with pytest.raises(OutsideVariableError, match="stray"):
        Program(lambda x: ({"x": stray.assign_add(1.0)}, None), X)
    assert float(stray.value) == 1.0


def test_other_variables_the_second_time_are_named():
    calls = []

    def grows(x, y):
        calls.append(1)
        return training(lambda: keras.Sequential([layers.Dense(CLASSES + len(calls))]), sgd)(x, y)

    program = Program(grows, X, Y)
    with pytest.raises(VariableMismatchError, match=r"dense/kernel float32\[12, 5\].*float32\[12, 4\]"):
        program.step(program.initial, X, Y)

    def shrinks(x):
        calls.append(1)
        if len(calls) == 1:
            keras.Variable(1.0, name="once")
        return {"x": x}, None

    calls.clear()
    program = Program(shrinks, X)
    with pytest.raises(VariableMismatchError, match="did not build once"):
        program.step(program.initial, X)


def test_an_error_in_user_code_points_at_its_line():
    def step(x):
        return {"x": x @ jnp.ones((5, 5))}, None  # wrong

    with pytest.raises(TypeError) as info:
        Program(step, X)
    assert any("# wrong" in str(entry.statement) for entry in info.traceback)


def test_calls_outside_of_a_step_say_so():
    for call in (get_or_create_global_step, lambda: minimize(sgd(), 1.0), lambda: name_output("x", 1)):
        with pytest.raises(TraceError, match="outside of a step"):
            call()


def test_bad_arguments_of_minimize():
    with pytest.raises(TypeError, match="keras.optimizers.Optimizer, got str: 'sgd'"):
        Program(training(sequential, lambda: "sgd"), X, Y)
    with pytest.raises(GradientError, match="var_list is empty"):
        Program(training(sequential, sgd, var_list=[]), X, Y)
    with pytest.raises(GradientError, match="none that was created so far is trainable"):
        Program(lambda x: ({}, minimize(sgd(), jnp.sum(x))), X)


def test_creation_in_other_threads_and_afterwards_is_keras_own():
    init = keras.Variable.__init__
    Program(training(sequential, sgd), X, Y)
    assert keras.Variable.__init__ is init
    assert float(keras.Variable(2.0).value) == 2.0


def test_given_gradients_are_applied():
    def step(x):
        w = keras.Variable(1.0, name="w")
        return {}, apply_gradients(sgd(), [(jnp.float32(2.0), w)], get_or_create_global_step())

    program = Program(step, X)
    state, _ = jax.jit(program.step)(program.initial, X)
    assert float(state["w"]) == pytest.approx(0.8)
    assert int(state["global_step"]) == 1


@pytest.mark.samples("sequential")
@pytest.mark.parametrize("model", [sequential, nested, recurrent])
def test_an_eager_step_equals_the_traced_one(model, capsys):
    def step(x, y):
        loss = cross_entropy(y, model()(x, training=True))
        if not isinstance(loss, jax.core.Tracer):
            print("loss is", float(loss))
        return {"loss": loss}, minimize(sgd(), loss, get_or_create_global_step())

    program = Program(step, X, Y, seed=2)
    traced, outputs = jax.jit(program.step)(program.initial, X, Y)
    eager, eager_outputs = program.step_eagerly(program.initial, X, Y)
    assert capsys.readouterr().out.startswith("loss is ")
    np.testing.assert_allclose(outputs["loss"], eager_outputs["loss"], rtol=1e-5)
    assert traced.keys() == eager.keys()
    for path, value in traced.items():
        np.testing.assert_allclose(value, eager[path], rtol=1e-4, atol=1e-6, err_msg=path)


def test_constants_assigned_to_weights_are_refused():
    def step(x, y):
        model = keras.Sequential([keras.Input((12,)), layers.Dense(CLASSES)])
        model.set_weights([np.ones((12, CLASSES)), np.zeros(CLASSES)])
        loss = cross_entropy(y, model(x))
        return {"loss": loss}, minimize(sgd(), loss)

    with pytest.raises(TraceError, match="dense/kernel.*warm_start_from"):
        Program(step, X, Y)


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype float64")
def test_64_bit_weights_become_32_bit_ones():
    def step(x, y):
        loss = cross_entropy(y, layers.Dense(CLASSES, dtype="float64")(x))
        return {"loss": loss}, minimize(sgd(), loss)

    _, losses = run(Program(step, X, Y), 2)
    assert losses[1] < losses[0]


def test_two_optimizers_on_a_shared_trunk():
    def step(x, y):
        trunk, one, two = layers.Dense(4), layers.Dense(CLASSES), layers.Dense(CLASSES)
        hidden = trunk(x)
        first, second = cross_entropy(y, one(hidden)), cross_entropy(y, two(hidden))
        shared = trunk.trainable_variables
        minimize(sgd(), first, var_list=shared + one.trainable_variables)
        minimize(sgd(), second, var_list=shared + two.trainable_variables)
        return {"loss": first + second}, None

    _, losses = run(Program(step, X, Y, seed=1), 30)
    assert losses[-1] < losses[0]


def test_outputs_are_computed_without_what_they_do_not_need():
    def train(x):
        loss = jnp.mean(layers.Dense(CLASSES, name="dense")(x) ** 2)
        name_output("twice", 2 * loss)
        minimize(keras.optimizers.SGD(0.1), loss, get_or_create_global_step())
        return {"loss": loss, "exp": jnp.exp(x)}, None

    program = Program(train, X)
    computed = jax.make_jaxpr(lambda state: program.compute_outputs(["loss", "twice"], state, X))(
        program.initial
    )
    primitives = [eqn.primitive.name for eqn in computed.eqns]
    assert primitives.count("dot_general") == 1  # the gradient has another
    assert "exp" not in primitives
    _, outputs = program.step(program.initial, X)
    found = program.compute_outputs(["loss", "twice"], program.initial, X)
    assert sorted(found) == ["loss", "twice"]
    np.testing.assert_allclose(found["twice"], outputs["twice"])


def test_garbage_is_not_collected_while_a_step_is_traced() -> None:
    enabled = []

    def step(x: Any) -> tuple[dict[str, Any], None]:
        enabled.append(gc.isenabled())
        return {"sum": x + keras.Variable(1.0, name="w")}, None

    program = Program(step, jnp.float32(3.0))
    executables: dict[str, Any] = {}
    compiled(program.step, (program.initial, jnp.float32(3.0)), executables)
    muster.function(lambda x: enabled.append(gc.isenabled()) or x + 1)(np.float32(1))
    assert set(enabled) == {False}
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        Program(lambda x: 1 / 0, jnp.float32(3.0))
    assert gc.isenabled()
    gc.disable()
    try:
        Program(step, jnp.float32(3.0))
        assert not gc.isenabled()
    finally:
        gc.enable()
