"""``GradientTape`` in eager code."""

import contextlib
import gc
import logging
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster
from muster import GradientTape, keras
from muster._errors import GradientError
from muster.program.gradients import _tape, is_tracing
from muster.program.gradients._tape_trace import is_tape_open

X = np.random.default_rng(0).random((8, 3), np.float32)
Y = (X.sum(1) > 1.5).astype(np.int32)


def close(one, other):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), one, other)


def test_values_in_the_block_are_numbers():
    v = keras.Variable([1.0, 2.0])
    with GradientTape() as tape:
        y = v * v
        assert float(y[1]) == 4
        assert np.asarray(y).tolist() == [1, 4]
        assert repr(y[0]) == "Array(1., dtype=float32)"
        loss = y[0] if y[1] > 3 else y[1]
        for _ in range(int(y[1])):
            loss = loss + v[1]
    close(tape.gradient(loss, v), [2.0, 4.0])


def test_watched_arrays_and_structures():
    a, b, c = jnp.ones(2), jnp.full(2, 3.0), jnp.ones(2)
    with GradientTape() as tape:
        tape.watch({"a": a, "b": [b]})
        y = a * b + c
    grads = tape.gradient(y, {"a": a, "b": [b, b], "c": c})
    assert grads["c"] is None
    close([grads["a"], *grads["b"]], [[3, 3], [1, 1], [1, 1]])


def test_what_is_computed_before_watch_is_constant():
    x = jnp.asarray(3.0)
    with GradientTape(persistent=True) as tape:
        before = x * x
        tape.watch(x)
        after = x * x
    assert tape.gradient(before, x) is None
    assert tape.gradient([after, before], x) == 6


def test_results_as_sources():
    x = jnp.asarray(3.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = y * y
    assert [float(each) for each in tape.gradient(z, [x, y])] == [108, 18]
    assert tape.gradient([y, z], x) == 114
    assert tape.gradient(y, z) is None
    assert tape.gradient(y, y) == 1


def test_weights_of_the_target_and_zeros_for_what_is_unconnected():
    x, other = jnp.asarray([1.0, 2.0]), jnp.ones(3)
    with GradientTape(persistent=True) as tape:
        tape.watch([x, other])
        y = x * x
    close(tape.gradient(y, x, output_gradients=jnp.asarray([1.0, 10.0])), [2, 40])
    close(tape.gradient([y, y], x, output_gradients=[None, np.array([1, 0])]), [4, 4])
    assert tape.gradient(y, other) is None
    close(tape.gradient(y, [x, other], unconnected_gradients="zero"), [np.array([2.0, 4]), np.zeros(3)])
    with pytest.raises(ValueError, match="unconnected_gradients"):
        tape.gradient(y, x, unconnected_gradients="zeros")


def test_second_order():
    x = jnp.asarray(2.0)
    with GradientTape() as outer, GradientTape() as inner:
        outer.watch(x)
        inner.watch(x)
        y = x**3
        first = inner.gradient(y, x)
    assert (float(first), float(outer.gradient(first, x))) == (12, 12)


def test_second_order_by_one_persistent_tape():
    x = jnp.asarray(2.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**4
        first = tape.gradient(y, x)
        second = tape.gradient(first, x)
    assert (float(second), float(tape.gradient(second, x))) == (48, 48)


def test_jacobians():
    x = jnp.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    w = keras.Variable(np.ones((3, 2), np.float32))
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = jnp.tanh(x @ w.value)
    expected = jax.jacobian(lambda x, w: jnp.tanh(x @ w), (0, 1))(x, w.value)
    close(tape.jacobian(y, (x, w)), expected)
    close(tape.batch_jacobian(y, x), jax.vmap(jax.jacobian(lambda row: jnp.tanh(row @ w.value)))(x))
    with GradientTape(persistent=True) as other:
        squares = w * w
    close(other.batch_jacobian(squares, w), np.full((3, 2, 2), np.diag([2.0, 2.0])))
    assert tape.jacobian(y, jnp.ones(1)) is None
    assert tape.jacobian(y, jnp.ones(1), unconnected_gradients="zero").shape == (2, 2, 1)
    assert tape.batch_jacobian(y, jnp.ones((2, 1))) is None
    with pytest.raises(ValueError, match=r"same first axis.*\(2, 2\) and \(3,\)"):
        tape.batch_jacobian(y, jnp.ones(3))


@pytest.mark.slow
def test_a_model_has_the_gradients_that_jax_finds():
    keras.utils.set_random_seed(1)
    lstm = [keras.layers.Reshape((3, 1)), keras.layers.LSTM(4), keras.layers.BatchNormalization()]
    model = keras.Sequential([*lstm, keras.layers.Dense(8, activation="gelu"), keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with GradientTape() as tape:  # builds the model
        value = loss(Y, model(X, training=True))

    def of_jax(trainable):
        others = [v.value for v in model.non_trainable_variables]  # training does not read averages
        return loss(Y, model.stateless_call(trainable, others, X, training=True)[0])

    expected, grads = jax.value_and_grad(of_jax)([v.value for v in model.trainable_variables])
    close(value, expected)
    close(tape.gradient(value, model.trainable_variables), grads)
    assert [v.path for v in tape.watched_variables()] == [v.path for v in model.trainable_variables]


@pytest.mark.slow
def test_training():
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.layers.Dense(8, "relu"), keras.layers.Dropout(0.1), keras.layers.Dense(1)]
    )
    optimizer, mean = keras.optimizers.Adam(0.05), keras.metrics.Mean()
    losses = []
    for _ in range(30):
        with GradientTape() as tape:
            loss = jnp.mean((model(X, training=True)[:, 0] - Y) ** 2)
            mean.update_state(loss)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        losses.append(float(loss))
    assert losses[-1] < losses[0] / 2
    assert mean.result() == pytest.approx(np.mean(losses), rel=1e-5)


def test_mixed_precision_and_a_scaled_loss():
    layer = keras.layers.Dense(1, dtype="mixed_float16")
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=4.0)
    with GradientTape() as tape:
        loss = jnp.mean(layer(X).astype("float32") ** 2)
        scaled = optimizer.scale_loss(loss)
    grads = tape.gradient(scaled, layer.trainable_variables)
    assert {g.dtype.name for g in grads} == {"float32"}
    before = np.asarray(layer.bias.value)
    optimizer.apply_gradients(zip(grads, layer.trainable_variables, strict=True))
    close(layer.bias.value, before - 0.1 * grads[1] / 4)


def test_assigned_variables():
    v = keras.Variable(2.0)
    with GradientTape(persistent=True) as tape:
        y = v * v
        v.assign(y)
        z = v * 3
    assert tape.gradient(z, v) == 3  # an assignment ends what derivatives go through
    assert tape.gradient([y, z], v) == 4 + 3
    v.assign_sub(1.0)
    assert tape.gradient(y, v) == 4
    assert float(v) == 3


def test_which_variables_are_watched():
    v, fixed = keras.Variable(2.0), keras.Variable(3.0, trainable=False)
    with GradientTape(persistent=True) as tape:
        y = v * fixed
    assert tape.gradient(y, [v, fixed]) == [3, None]
    with GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(fixed)
        y = v * fixed
    assert tape.gradient(y, [v, fixed]) == [None, 2]


def test_functions_with_derivatives_of_their_own():
    v, fixed = keras.Variable(2.0), keras.Variable(3.0)

    @jax.custom_vjp
    def f(x):
        return x * fixed.value

    f.defvjp(lambda x: (x * fixed.value, None), lambda _, g: (g * 100,))
    with GradientTape(persistent=True) as tape:
        tape.watch(fixed)
        y = f(v.value)
    assert tape.gradient(y, v) == 100
    assert tape.gradient(y, fixed) is None

    @keras.ops.custom_gradient
    def clipped(x):
        return x * 2, lambda upstream: upstream * 10

    with GradientTape() as tape:
        y = clipped(v.value)
    assert tape.gradient(y, v) == 10


def test_no_gradients_through_integers_and_stop_gradient(caplog):
    v = keras.Variable([1.0, 5.0])
    with GradientTape(persistent=True) as tape:
        place = jnp.argmax(v.value)
        stopped = jax.lax.stop_gradient(v.value)
        y = place * 2.0
        z = stopped * v
    assert tape.gradient(y, v) is None
    assert tape.gradient(stopped * 2, v) is None
    close(tape.gradient(z, v), [1, 5])
    assert tape.gradient(place, v) is None
    assert "has dtype int32" in caplog.text
    with pytest.raises(GradientError, match="int32"):
        tape.jacobian(place, v)


def test_recording_stops_and_starts_over():
    x = jnp.asarray(3.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        with tape.stop_recording():
            y = x * x
        z = x * x
        assert tape.gradient(y, x) is None
        assert tape.gradient(z, x) == 6
        tape.reset()
        assert tape.gradient(z, x) is None
        tape.watch(x)
        y = x * 2
    assert tape.gradient(y, x) == 2
    with pytest.raises(ValueError, match="not open"), tape.stop_recording():
        pass


def _target_of_a_second_network(v, x):
    with GradientTape() as tape:
        y = v * x
        with tape.stop_recording():
            target = jnp.sum(y * y) + jnp.max(v * 2)
        loss = jnp.sum((y - target) ** 2)
    return tape.gradient(loss, v)


def _what_an_outer_tape_records(v, x):
    with GradientTape(persistent=True) as outer:
        with GradientTape() as inner:
            y = v * x
            with inner.stop_recording():
                factor = y**2
            z = y * factor
        first = inner.gradient(z, v)
        with outer.stop_recording():
            fixed = first * y
        last = first * fixed
    return first, [outer.gradient(target, v) for target in (first, last, factor)]


def _what_an_inner_tape_records(v, x):
    with GradientTape() as outer:
        with GradientTape() as inner:
            y = v * x
            with outer.stop_recording():
                shift = v**3
            z = y**2 + shift
        first = inner.gradient(z, v)
        last = first * shift
    return first, outer.gradient(last, v)


def _gradients_asked_meanwhile(v, x):
    with GradientTape(persistent=True) as tape:
        y = (v * x) ** 2
        with tape.stop_recording():
            first = tape.gradient(y, v)
            norm = jnp.sum(first**2)
            again = tape.gradient(y, v, output_gradients=y)
        loss = jnp.sum(y * norm * first)
    return first, again, tape.gradient(loss, v)


def _a_variable_that_changes(v, x):
    with GradientTape() as tape:
        y = v * x
        with tape.stop_recording():
            v.assign(v * 2)
            factor = jnp.sum(v * y)
        loss = jnp.sum(v * y * factor)
    return tape.gradient(loss, v)


def _parts_of_loops(v, x):
    def body(_, value):
        with tape.stop_recording():
            value = value + 1
        return value

    with GradientTape() as tape:
        y = jax.lax.fori_loop(0, 2, body, v * x) if is_tracing() else v * x + 2
        with tape.stop_recording():
            y = jax.lax.fori_loop(0, 3, lambda _, value: value * 2, y) * v
        z = y * v
    return tape.gradient(z, v)


@pytest.mark.parametrize(
    "step",
    [
        _target_of_a_second_network,
        _what_an_outer_tape_records,
        _what_an_inner_tape_records,
        _gradients_asked_meanwhile,
        _a_variable_that_changes,
        _parts_of_loops,
    ],
)
def test_recording_stops_in_steps_as_in_eager_code(step):
    x = np.array([1.0, 3.0], np.float32)
    found = [
        run(keras.Variable([2.0, 0.5]), x)
        for run in (step, lambda v, x: muster.function(lambda: step(v, x))())
    ]
    close(*found)


def test_what_is_computed_while_recording_is_stopped_is_no_target_in_a_step():
    v = keras.Variable(2.0)

    @muster.function
    def step(twice):
        with GradientTape() as tape, tape.stop_recording():
            y = v * v
            with tape.stop_recording() if twice else contextlib.nullcontext():
                pass
        return tape.gradient(y, v)

    with pytest.raises(GradientError, match="does not depend"):
        step(False)
    with pytest.raises(ValueError, match="stopped recording already"):
        step(True)


def test_a_tape_is_used_once_unless_it_is_persistent():
    v = keras.Variable(2.0)
    with GradientTape() as tape:
        y = v * v
    tape.gradient(y, v)
    with pytest.raises(RuntimeError, match="persistent=True"):
        tape.gradient(y, v)


def test_numpy_arrays_are_not_watched():
    with GradientTape() as tape, pytest.raises(TypeError, match="got ndarray"):
        tape.watch(np.ones(2))


def test_a_function_in_the_block_is_differentiated():
    v = keras.Variable(2.0)

    @muster.function
    def squared(x):
        return x * v * v

    assert squared(np.float32(3)) == 12  # compiled
    with GradientTape() as tape:
        y = squared(np.array([3.0, 4.0], np.float32))
    assert tape.gradient(y, v) == 28
    with GradientTape() as tape:
        tape.watch(x := jnp.asarray(3.0))
        y = squared(x)
    assert tape.gradient(y, x) == 4


@pytest.mark.parametrize("reverse", [False, True])
def test_a_loop_over_a_jit_compiled_function_that_has_captured_a_value(reverse):
    v = keras.Variable(2.0)
    rows = jnp.arange(1.0, 4.0)

    def loop():
        multiply = jax.jit(lambda a: a * v.value)
        return jax.lax.scan(
            lambda c, x: (multiply(c), c + x), jnp.float32(1.0), rows, length=3, reverse=reverse
        )

    expected = loop()
    with GradientTape() as tape:
        last, made = loop()
        total = last + jnp.sum(made)
    np.testing.assert_allclose(last, expected[0])
    np.testing.assert_allclose(made, expected[1])
    # 8 + (1 + 2 + 4) + 6, whose derivative by v is 3 v^2 + 1 + 2 v
    np.testing.assert_allclose(total, 21.0)
    np.testing.assert_allclose(tape.gradient(total, v), 17.0)


def test_a_jit_compiled_function_that_has_captured_a_value():
    v = keras.Variable(2.0)
    with GradientTape() as tape:
        y = jax.jit(lambda x: x * v.value)(3.0)
    assert tape.gradient(y, v) == 3


def test_an_array_that_was_overwritten_since():
    v = keras.Variable(2.0)
    with GradientTape(persistent=True) as tape:
        y = v * v
    v.value.delete()
    with pytest.raises(GradientError, match="overwritten"):
        tape.gradient(y, v)


def test_strategies():
    strategy = muster.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        v = keras.Variable(2.0)
        with GradientTape() as tape:
            y = v * v
        assert tape.gradient(y, v) == 4
        with GradientTape(), pytest.raises(GradientError, match=r"in the function that strategy\.run calls"):
            strategy.run(lambda: v * v)

        def replica():
            with GradientTape() as tape:
                y = v * v
            return tape.gradient(y, v)

        assert [float(each) for each in strategy.run(replica).values] == [4, 4]


def test_an_error_in_the_block_leaves_nothing_behind():
    value = keras.Variable.value
    for error in (ZeroDivisionError, KeyboardInterrupt):
        with pytest.raises(error), GradientTape(), GradientTape():
            raise error
    assert not is_tape_open()
    assert keras.Variable.value is value


def test_threads_have_their_own_tapes():
    x, found = jnp.asarray(3.0), []

    def elsewhere():
        with GradientTape() as tape:
            tape.watch(x)
            y = x * 5
        found.append(float(tape.gradient(y, x)))

    with GradientTape() as tape:
        tape.watch(x)
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        y = x * x
    assert tape.gradient(y, x) == 6
    assert found == [5]


def test_nothing_is_kept():
    v = keras.Variable(np.ones((100, 100), np.float32))
    for persistent in (False, True):
        with GradientTape(persistent) as tape:
            y = v * v
            kept = weakref.ref(y)
            y = keras.ops.sum(y)
        tape.gradient(y, v)
        if persistent:
            assert kept() is not None
            del tape
        gc.collect()
        assert kept() is None


@pytest.mark.slow
def test_memory_does_not_grow():
    v = keras.Variable(np.ones(10, np.float32))

    def step():
        with GradientTape() as tape:
            loss = keras.ops.sum(keras.ops.relu(v) ** 2)
        v.assign_sub(0.001 * tape.gradient(loss, v))

    step()
    gc.collect()
    arrays, objects = len(jax.live_arrays()), len(gc.get_objects())
    for _ in range(1000):
        step()
    gc.collect()
    assert len(jax.live_arrays()) <= arrays + 2
    assert len(gc.get_objects()) < objects + 1000


def test_the_hint_is_logged_once(caplog, monkeypatch):
    monkeypatch.setattr(_tape, "_steps", iter(range(48, 1000)))
    v = keras.Variable(1.0)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            with GradientTape() as tape:
                y = v * v
            tape.gradient(y, v)
    assert [record.message.count("muster.function") for record in caplog.records] == [1]
