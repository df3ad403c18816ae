"""MirroredStrategy: several replicas do what one does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from estimator_runs import RNG, layers, plain, trained
from program_steps import started

import muster
from muster._keras import keras
from muster.distribute import MirroredStrategy
from muster.distribute.strategies._programs import start_program
from muster.program import name_output
from muster.program.trace._program import Program


def mirrored(count):
    return MirroredStrategy([f"/cpu:{i}" for i in range(count)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("optimizer", "counts"),
    [(lambda: keras.optimizers.SGD(0.1), (1, 4)), (lambda: keras.optimizers.Adam(0.01), (2,))],
    ids=["sgd", "adam"],
)
def test_several_replicas_equal_one(tmp_path, optimizer, counts):
    losses, weights, metrics, predictions = trained(tmp_path / "one", None, optimizer)
    for count in counts:
        seen = trained(tmp_path / str(count), mirrored(count), optimizer)
        np.testing.assert_allclose(seen[0], losses, atol=1e-5)
        assert seen[1].keys() == weights.keys()
        for name, value in weights.items():
            np.testing.assert_allclose(seen[1][name], value, rtol=1e-4, atol=1e-6, err_msg=name)
        assert seen[2]["count"] == 250
        assert seen[2]["accuracy"] == pytest.approx(metrics["accuracy"], abs=1e-6)
        assert seen[2]["loss"] == pytest.approx(metrics["loss"], abs=1e-6)
        np.testing.assert_allclose(seen[3], predictions, atol=1e-5)


def step_of(function, count, batch):
    program = Program(lambda batch: (function(batch), None), batch)
    strategy = mirrored(count)
    return started(strategy, program)


def test_dropout_masks_differ_between_replicas_and_the_first_is_that_of_one_device():
    batch = np.ones((8, 50), np.float32)

    def drop(x):
        return {"y": layers.Dropout(0.5, seed=3)(x, training=True)}

    _, alone = step_of(drop, 1, batch[:4])
    state, step = step_of(drop, 2, batch)
    one = alone(start_program(mirrored(1), {k: np.array(v) for k, v in state.items()}).peek(), batch[:4])[1][
        "y"
    ]
    state, outputs = step(state, batch)
    y = np.asarray(outputs["y"])
    np.testing.assert_array_equal(y[:4], one)
    assert not np.array_equal(y[:4], y[4:])
    seeds = [
        np.asarray(shard.data)
        for shard in next(value for path, value in state.items() if "seed" in path).addressable_shards
    ]
    np.testing.assert_array_equal(seeds[0], seeds[1])


def test_batch_statistics_are_each_replicas_and_their_averages_are_kept():
    batch = RNG.normal(size=(8, 3)).astype(np.float32)

    def normalize(x):
        return {"y": layers.BatchNormalization(momentum=0.0, epsilon=0.0)(x, training=True)}

    state, step = step_of(normalize, 2, batch)
    state, outputs = step(state, batch)
    halves = batch.reshape(2, 4, 3)
    expected = (halves - halves.mean(1, keepdims=True)) / halves.std(1, keepdims=True)
    np.testing.assert_allclose(outputs["y"], expected.reshape(8, 3), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(state["batch_normalization/moving_mean"], halves.mean(1).mean(0), atol=1e-6)
    np.testing.assert_allclose(state["batch_normalization/moving_variance"], halves.var(1).mean(0), atol=1e-5)


def test_assignments_combine_as_their_variable_says():
    def assign(x):
        local = jnp.sum(x)
        for aggregation in ("mean", "sum", "only_first_replica"):
            v = keras.Variable(1.0, trainable=False, aggregation=aggregation, name=aggregation)
            v.assign_add(local)
        return {"named": name_output("local", local) and local * 0}

    batch = np.arange(4, dtype=np.float32)
    state, step = step_of(assign, 2, batch)
    state, outputs = step(state, batch)  # the replicas see 0 + 1 and 2 + 3
    assert float(state["mean"]) == 1 + 3
    assert float(state["sum"]) == 1 + 6
    assert float(np.asarray(state["only_first_replica"].addressable_shards[0].data)) == 2
    assert float(outputs["local"]) == 3
    state, outputs = step(state, np.array([10.0], np.float32))  # cannot be shared: counted once
    assert float(state["sum"]) == 7 + 10
    assert float(outputs["local"]) == 10


def test_a_truth_value_that_the_first_replica_assigns_stays_one():
    with MirroredStrategy(["cpu:0", "cpu:1"]).scope() as strategy:
        stop = keras.Variable(
            False, dtype="bool", trainable=False, aggregation="only_first_replica", name="stop"
        )
    for value, expected in ((5.0, True), (1.0, False), (4.0, True)):
        strategy.run(lambda x: stop.assign(jnp.max(x) > 3), (np.float32(value),))
        assert stop.value.dtype == bool
        assert bool(stop.value) == expected


def test_an_assignment_that_does_not_say_how_it_combines_leaves_the_first_replicas_value():
    def assign(x):
        keras.Variable(1.0, trainable=False, name="stray").assign(jnp.sum(x))
        return {}

    state, step = step_of(assign, 2, np.ones(4, np.float32))
    state, _ = step(state, np.arange(4, dtype=np.float32))
    assert state["stray"] == 1.0


def test_the_sum_of_losses_is_minimized_on_request():
    def train(reduction):
        def step(x):
            w = keras.Variable(0.0, name="w")
            loss = jnp.mean(x) * w
            muster.minimize(keras.optimizers.SGD(1.0), loss, loss_reduction=reduction)
            return {}

        state, run = step_of(step, 2, np.ones(4, np.float32))
        return float(run(state, np.array([1, 2, 3, 4], np.float32))[0]["w"])

    assert train("mean") == pytest.approx(-2.5)
    assert train("sum") == pytest.approx(-5.0)


@pytest.mark.optimized
def test_gradients_and_the_loss_travel_in_one_collective():
    x = np.ones((4, 8, 8, 1), np.float32)

    def step(x):
        loss = jnp.mean(plain()(x) ** 2)
        muster.minimize(keras.optimizers.Adam(), loss, muster.get_or_create_global_step())
        return {"loss": muster.program.common_value(loss)}

    program = Program(lambda x: (step(x), None), x)

    executables = {}
    state, run = started(mirrored(2), program, executables)
    run(state, x)
    (executable,) = executables.values()
    assert executable.as_text().count("all-reduce(") == 1


def test_wrong_devices():
    with pytest.raises(ValueError, match="given once"):
        MirroredStrategy(["/cpu:0", "cpu:0"])
    with pytest.raises(ValueError, match="no device '/cpu:8'"):
        mirrored(10)
    assert MirroredStrategy().num_replicas_in_sync == len(jax.devices()) == 8  # the test divides its CPU
    assert MirroredStrategy([]).num_replicas_in_sync == 8  # as with the GPUs of a host that has none
    assert mirrored(4).input_context.num_replicas_in_sync == 4


def test_debugging_eagerly_is_for_one_replica():
    muster.config.run_functions_eagerly(True)
    try:
        with pytest.raises(ValueError, match="MirroredStrategy has 2"):
            step_of(lambda x: {}, 2, np.ones(2, np.float32))
    finally:
        muster.config.run_functions_eagerly(False)
