"""Functions run untraced: numbers are seen, and what becomes of variables is the same."""

import jax
import numpy as np
import pytest

import muster
from muster import keras
from muster._errors import GradientError
from muster.data import Dataset
from muster.distribute import (
    MirroredStrategy,
    OneDeviceStrategy,
    PerReplica,
    ReduceOp,
    function,
    get_replica_context,
    get_strategy,
)

STRATEGIES = {"default": get_strategy, "one device": lambda: OneDeviceStrategy("/cpu:1")}
X = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)


@pytest.fixture
def eager():
    muster.config.run_functions_eagerly(True)
    yield
    muster.config.run_functions_eagerly(False)


@pytest.fixture(params=STRATEGIES)
def strategy(request):
    return STRATEGIES[request.param]()


def train(strategy, seen):
    """Losses, weights and a metric of a loop whose step looks at its loss."""
    keras.utils.set_random_seed(1)
    with strategy.scope():
        layers = [
            keras.layers.Dense(4, use_bias=False),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5, seed=1),
        ]
        model = keras.Sequential([*layers, keras.layers.Dense(1)])  # built at the first call
        optimizer = keras.optimizers.Adam(0.1)
        mean = keras.metrics.Mean()

    def step(x):
        with muster.GradientTape() as tape:
            loss = keras.ops.mean(model(x, training=True) ** 2)
        seen.append(loss)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        mean.update_state(loss)
        assert get_replica_context().num_replicas_in_sync == 1
        return loss

    @function
    def call(iterator):
        return strategy.reduce(ReduceOp.SUM, strategy.run(step, (next(iterator),)), axis=None)

    iterator = iter(strategy.experimental_distribute_dataset(Dataset.from_tensor_slices(X).batch(8)))
    losses = [float(call(iterator)) for _ in range(3)]
    with pytest.raises(StopIteration):
        call(iterator)
    return losses, [np.array(each.value) for each in model.weights], float(mean.result())


@pytest.mark.slow
def test_numbers_are_seen_and_nothing_else_changes(strategy, eager):
    seen = []
    losses, weights, mean = train(strategy, seen)
    numbers = [each for each in seen if not isinstance(each, jax.core.Tracer)]
    assert [float(each) for each in numbers] == losses
    muster.config.run_functions_eagerly(False)
    compiled = train(strategy, [])
    np.testing.assert_allclose(losses, compiled[0], rtol=1e-4)
    assert mean == pytest.approx(compiled[2], rel=1e-4)
    for one, other in zip(weights, compiled[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


def test_python_decides_on_numbers(strategy, eager):
    with strategy.scope():
        total = keras.Variable(0.0, trainable=False)

    @function
    def step(x, flag=None):
        if x > 1:  # an error in traced code
            total.assign_add(x)
        return {"total": total, "flag": flag}

    for x in (0.5, 2.0, 3.0):
        result = strategy.run(step, (np.float32(x),), {"flag": "text"})
    assert (float(total), float(result["total"]), result["flag"]) == (5.0, 5.0, "text")


def test_an_error_leaves_variables_as_they_were(strategy, eager):
    with strategy.scope():
        total = keras.Variable(0.0, trainable=False)

    @function
    def step():
        total.assign_add(1.0)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        step()
    assert float(total) == 0


def test_gradients_of_the_input_and_of_nested_tapes(eager):
    @function
    def step(x):
        with muster.GradientTape() as tape:
            y = keras.ops.sum(x**3)
        return tape.gradient(y, x)

    np.testing.assert_allclose(step(np.array([1.0, 2.0], np.float32)), [3, 12])
    with pytest.raises(GradientError, match="computed or assigned in this step"):
        function(lambda x: muster.gradients(keras.ops.sum(x * 2), [x + 1]))(np.ones(2, np.float32))


def test_several_replicas_are_told_what_to_do_instead(eager):
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    for call in (
        lambda: strategy.run(lambda: 1.0),
        lambda: strategy.reduce("SUM", PerReplica(np.ones(2))),
        function(lambda: strategy.run(lambda: 1.0)),
    ):
        with pytest.raises(ValueError, match="debugs one replica, and MirroredStrategy has 2. Use OneDevice"):
            call()


def test_what_was_computed_before_the_tape_is_constant(eager):
    a, b = keras.Variable(2.0), keras.Variable(3.0)
    b.assign(a.value)  # one array, in two variables

    def step(x):
        before = a * x
        with muster.GradientTape() as outer:
            middle = before * b
            with muster.GradientTape() as tape:
                after = a * a * before + middle
            gradient = tape.gradient(after, a)
        return gradient, outer.gradient(gradient * a, [a, b])

    def numbers():
        return jax.tree.map(float, function(step)(np.float32(5.0)))

    found = numbers()
    muster.config.run_functions_eagerly(False)
    assert numbers() == found == (40.0, [80.0, 0.0])
