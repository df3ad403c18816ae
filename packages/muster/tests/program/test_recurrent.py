"""Keras' LSTM and GRU layers give in steps what they give elsewhere, by muster's loops where those apply."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster
import muster.keras_hooks
from muster import cpu
from muster._keras import keras
from muster.config import use_cpu_lowerings
from muster.program import ForwardAccumulator
from muster.program.variables.keras_internals import backend

BATCH, STEPS, FEATURES, UNITS = 3, 6, 4, 5
INPUTS = np.random.default_rng(0).standard_normal((BATCH, STEPS, FEATURES)).astype(np.float32)
KINDS = [keras.layers.LSTM, keras.layers.GRU]


@pytest.fixture
def replaced(monkeypatch):
    """The layers that muster computes, by name, in order."""
    seen = []
    for name in ("lstm", "gru"):
        original = getattr(cpu, name)
        noting = lambda *args, name=name, original=original: seen.append(name) or original(*args)  # noqa: E731
        monkeypatch.setattr(cpu, name, noting)
    return seen


def built(kind, **options):
    layer = kind(UNITS, **options)
    layer.build(INPUTS.shape)
    rng = np.random.default_rng(1)
    for each in layer.trainable_variables:
        each.assign(0.5 * rng.standard_normal(each.shape).astype(np.float32))
    return layer


def loss_of(layer, **options):
    def loss(inputs, weights, states):
        results, _ = layer.stateless_call(
            weights, layer.non_trainable_variables, inputs, initial_state=states, **options
        )
        return sum(jnp.sum(jnp.sin((i + 2) * each)) for i, each in enumerate(jax.tree.leaves(results)))

    return loss


def arguments_of(layer):
    rng = np.random.default_rng(2)
    states = [rng.standard_normal((BATCH, UNITS)).astype(np.float32) for _ in layer.state_size]
    return INPUTS, [each.value for each in layer.trainable_variables], states


def assert_close(ours, theirs, **tolerances):
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(mine, other, **({"rtol": 1e-5, "atol": 1e-5} | tolerances))
        assert np.any(np.asarray(mine))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"return_sequences": True},
        {"go_backwards": True, "use_bias": False},
        {"go_backwards": True, "return_sequences": True, "return_state": True},
    ],
    ids=str,
)
def test_results_and_gradients_are_keras_own(kind, options, replaced):
    layer = built(kind, **options)
    function = jax.value_and_grad(loss_of(layer), (0, 1, 2))
    theirs = function(*arguments_of(layer))
    assert not replaced
    ours = muster.function(function)(*arguments_of(layer))
    assert set(replaced) == {kind.__name__.lower()}
    assert_close(ours, theirs)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=5e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_gradients(kind, replaced):
    layer = built(kind, return_sequences=True)

    def function(*args):
        gradients = jax.grad(loss_of(layer), (0, 1, 2))
        return jax.grad(lambda *args: sum(jnp.sum(g**2) for g in jax.tree.leaves(gradients(*args))), (0, 1))(
            *args
        )

    ours = muster.function(function)(*arguments_of(layer))
    assert replaced
    assert_close(ours, function(*arguments_of(layer)), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_in_forward_mode_are_keras_own(kind, replaced):
    layer = built(kind)
    loss, (inputs, *others) = loss_of(layer), arguments_of(layer)

    def accumulated(inputs):
        with ForwardAccumulator(inputs, jnp.ones_like(inputs)) as accumulator:
            result = loss(inputs, *others)
        return accumulator.jvp(result)

    def pushed(inputs):
        return jax.jvp(lambda inputs: loss(inputs, *others), [inputs], [jnp.ones_like(inputs)])[1]

    expected = pushed(jnp.asarray(inputs))
    assert_close(muster.function(accumulated)(inputs), expected)
    assert_close(muster.function(pushed)(inputs), expected)
    assert not replaced


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("options", "called"),
    [
        ({"activation": "relu"}, {}),
        ({"recurrent_activation": "hard_sigmoid"}, {}),
        ({"unroll": True}, {}),
        ({"recurrent_dropout": 0.5}, {"training": True}),
        ({"use_cudnn": False}, {}),
        ({}, {"mask": np.arange(STEPS) < np.array([[6], [2], [4]])}),
    ],
    ids=str,
)
def test_what_is_left_to_keras(kind, options, called, replaced):
    layer = built(kind, seed=3, **options)
    function = loss_of(layer, **called)
    ours = muster.function(function)(*arguments_of(layer))
    assert not replaced
    if not called.get("training"):
        assert_close(ours, function(*arguments_of(layer)))


def test_floats_of_16_bits_are_left_to_keras(replaced):
    layer = built(keras.layers.LSTM, dtype="mixed_bfloat16")
    ours = muster.function(loss_of(layer))(*arguments_of(layer))
    assert_close(ours, loss_of(layer)(*arguments_of(layer)), rtol=2e-2)
    assert not replaced


def test_a_gru_that_resets_before_the_product_is_left_to_keras(replaced):
    layer = built(keras.layers.GRU, reset_after=False)
    ours = muster.function(loss_of(layer))(*arguments_of(layer))
    assert_close(ours, loss_of(layer)(*arguments_of(layer)))
    assert not replaced


@pytest.mark.parametrize("kind", KINDS)
def test_states_are_kept_and_inputs_dropped_as_by_keras(kind, replaced):
    layer = keras.layers.Bidirectional(kind(UNITS, stateful=True, dropout=0.5, seed=1), merge_mode="sum")
    layer.build(INPUTS.shape)
    step = muster.function(lambda inputs: layer(inputs, training=False))
    first, second = step(INPUTS), step(INPUTS)
    assert len(replaced) >= 2
    layer.reset_states()
    assert_close([first, second], [layer(INPUTS, training=False), layer(INPUTS, training=False)])
    assert np.any(np.asarray(first) != np.asarray(second))


def test_outside_of_steps_and_switched_off_nothing_is_replaced(replaced):
    original = backend.lstm
    layer = built(keras.layers.LSTM)
    use_cpu_lowerings(False)
    try:
        muster.function(loss_of(layer))(*arguments_of(layer))
    finally:
        use_cpu_lowerings(True)
    with muster.keras_hooks.patched_keras():
        assert backend.lstm is not original
        loss_of(layer)(*arguments_of(layer))
    assert backend.lstm is original
    assert not replaced


def test_fit_under_a_strategy_has_muster_s_loops_and_without_one_keras_own(replaced):
    losses, loops = [], []
    for strategy in (None, muster.distribute.OneDeviceStrategy("cpu:0")):
        keras.utils.set_random_seed(1)
        with strategy.scope() if strategy else contextlib.nullcontext():
            model = keras.Sequential([keras.layers.LSTM(UNITS), keras.layers.Dense(1)])
            model.compile("sgd", "mse")
        losses.append(model.fit(INPUTS, INPUTS[:, 0, :1], epochs=2, verbose=0).history["loss"])
        loops.append(len(replaced))
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert loops[0] == 0 < loops[1]
