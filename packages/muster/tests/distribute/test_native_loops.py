"""Custom loops in JAX's and Keras' own words: value_and_grad, and loops and branches inside of a step."""

import jax
import numpy as np
import pytest

import muster
from muster import keras
from muster._errors import GradientError, TraceError
from muster.data import Dataset
from muster.distribute import MirroredStrategy, OneDeviceStrategy, PerReplica, get_strategy

BATCH = 12
STEPS = 8
RNG = np.random.default_rng(0)
X = RNG.normal(size=(BATCH * STEPS, 4)).astype(np.float32)
Y = X.sum(1, keepdims=True)


def mirrored():
    return MirroredStrategy(["/cpu:0", "/cpu:1"])


def model_in(strategy, optimizer):
    keras.utils.set_random_seed(1)
    with strategy.scope():
        layers = [keras.Input((4,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)]
        return keras.Sequential(layers), optimizer()


def train(strategy, optimizer, steps_a_call=1, call_of=None):
    """The losses of each call, and the weights, of a loop with value_and_grad."""
    model, optimizer = model_in(strategy, optimizer)

    def loss_of(x, y):
        return keras.ops.sum((model(x, training=True) - y) ** 2) / BATCH

    def step(batch):
        loss, grads = muster.value_and_grad(loss_of, model.trainable_variables)(*batch)
        optimizer.apply(grads, model.trainable_variables)
        return loss

    @muster.function
    def call(iterator):
        losses = [strategy.run(step, (next(iterator),)) for _ in range(steps_a_call)]
        return [strategy.reduce("SUM", loss) for loss in losses]

    data = Dataset.from_tensor_slices((X, Y)).batch(BATCH)
    iterator = iter(strategy.experimental_distribute_dataset(data))
    losses = [float(loss) for _ in range(STEPS // steps_a_call) for loss in call(iterator)]
    return losses, [np.array(weight.value) for weight in model.weights], optimizer


def same(found, expected):
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    for weight, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(weight, other, rtol=1e-4, atol=1e-6)


def decaying():
    return keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.2, 2, 0.5))


OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "accumulated": lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2),
    "clipped": lambda: keras.optimizers.SGD(0.5, global_clipnorm=0.1),
    "scheduled": decaying,
    "averaged": lambda: keras.optimizers.Adam(
        0.05, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=3
    ),
}


@pytest.mark.samples("averaged", "clipped")
@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name != "sgd"])
def test_two_replicas_are_one_device(name):
    """With optimizers that the conformance suite does not have."""
    alone, both = (train(strategy, OPTIMIZERS[name]) for strategy in (get_strategy(), mirrored()))
    assert alone[0][-1] < alone[0][0]
    same(both, alone)
    if name == "scheduled":
        assert float(both[2].learning_rate) == pytest.approx(0.2 * 0.5 ** (STEPS / 2))
    if name == "averaged":
        averages = [each for each in both[2].variables if "average" in each.path]
        assert len(averages) == 4
        for own, other in zip(both[2].variables, alone[2].variables, strict=True):
            np.testing.assert_allclose(own.value, other.value, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("steps", [2, 4])
def test_several_steps_of_one_call_are_as_many_calls(steps):
    sgd = OPTIMIZERS["sgd"]
    same(train(mirrored(), sgd, steps), train(get_strategy(), sgd))


def test_gradients_of_a_replica_are_its_own_until_they_are_applied():
    strategy = mirrored()
    with strategy.scope():
        weight = keras.Variable(3.0)
        other = keras.Variable(np.ones(2, np.float32))
        optimizer = keras.optimizers.SGD(1.0)

    def step(x):
        (loss, aux), grads = muster.value_and_grad(
            lambda: (weight * x, {"seen": x + 1}), {"weight": weight, "other": [other]}, has_aux=True
        )()
        optimizer.apply([grads["weight"]], [weight])
        return loss, aux, grads

    loss, aux, grads = strategy.run(step, (PerReplica(np.array([1.0, 10.0], np.float32)),))
    assert [float(each) for each in loss.values] == [3, 30]
    assert [float(each) for each in aux["seen"].values] == [2, 11]
    assert [float(each) for each in grads["weight"].values] == [1, 10]
    assert [each.tolist() for each in grads["other"][0].values] == [[0, 0], [0, 0]]
    assert float(weight) == 3 - 11


def test_loops_and_branches_inside_of_a_step():
    """The gradient goes through a scan and a branch; a sum over replicas is taken outside of them."""

    def losses_and_weight(strategy):
        with strategy.scope():
            weight = keras.Variable(0.5)
            optimizer = keras.optimizers.SGD(0.1)

        def loss_of(x):
            def body(carry, row):
                carry = jax.lax.cond(row > 0, lambda c: c * weight.value, lambda c: c + weight.value, carry)
                return carry, carry

            last, every = jax.lax.scan(body, 1.0, x)
            return (last + keras.ops.sum(every)) / 8

        def step(x):
            loss, grads = muster.value_and_grad(loss_of, [weight])(x)
            optimizer.apply(grads, [weight])
            return loss

        rows = np.array([[1, -1, 1, 1], [-1, 1, -1, 1]], np.float32)
        if strategy.num_replicas_in_sync == 2:
            losses = [strategy.reduce("SUM", strategy.run(step, (PerReplica(rows),))) for _ in range(3)]
        else:

            def both(rows):
                loss, grads = muster.value_and_grad(lambda: sum(loss_of(row) for row in rows), [weight])()
                optimizer.apply(grads, [weight])
                return loss

            losses = [strategy.run(both, (rows,)) for _ in range(3)]
        return [float(loss) for loss in losses], [np.array(weight.value)]

    same(losses_and_weight(mirrored()), losses_and_weight(OneDeviceStrategy("/cpu:0")))


def test_mistakes_are_told():
    weight = keras.Variable(np.ones(2, np.float32))
    with pytest.raises(GradientError, match=r"single number, got an array of shape \(2,\)"):
        muster.function(muster.value_and_grad(lambda: weight * 2, weight))()
    with pytest.raises(TraceError, match="outside of a step: .* of a muster.function, or of what"):
        muster.value_and_grad(lambda: keras.ops.sum(weight.value), weight)()
    with pytest.raises(GradientError, match="does not depend on any of the variables"):
        muster.function(lambda: muster.value_and_grad(lambda: keras.ops.ones(()), weight)())()
