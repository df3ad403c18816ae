"""Mistakes of programs with strategies: each is an error that says what was wrong, and what to do."""

import traceback

import jax
import numpy as np
import pytest

import muster
from muster import keras
from muster._errors import DatasetError, GradientError, TraceError
from muster.data import Dataset
from muster.distribute import (
    MirroredStrategy,
    OneDeviceStrategy,
    PerReplica,
    function,
    get_replica_context,
    get_strategy,
)

STRATEGIES = {
    "default": get_strategy,
    "one device": lambda: OneDeviceStrategy("/cpu:0"),
    "mirrored 2": lambda: MirroredStrategy(["/cpu:0", "/cpu:1"]),
}


def mirrored():
    return STRATEGIES["mirrored 2"]()


def last_line_here(error):
    """The text of the last line of this file that an error has passed."""
    return [frame.line for frame in traceback.extract_tb(error.__traceback__) if frame.filename == __file__][
        -1
    ]


def branch(x):
    if x.sum() > 0:  # the branch
        return x
    return -x


def product(x):
    return x @ np.ones((7, 7), np.float32)  # the product


def keras_layer(x):
    return keras.layers.Dense(2)(x[0, 0])  # the layer


def gradient(x):
    weight = np.ones((), np.float32)
    return muster.gradients(keras.ops.sum(x * 2), [keras.ops.convert_to_tensor(weight)])  # the gradient


def own(x):
    raise KeyError("mine")  # the user's


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("code", "error", "line"),
    [
        (branch, TypeError, "# the branch"),
        (product, TypeError, "# the product"),
        (keras_layer, ValueError, "# the layer"),
        (own, KeyError, "# the user's"),
    ],
)
def test_an_error_points_at_the_users_line(strategy, code, error, line):
    strategy = STRATEGIES[strategy]()
    x = np.ones((2, 3, 3), np.float32)
    given = PerReplica(x) if strategy.num_replicas_in_sync > 1 else x[0]
    with pytest.raises(error) as raised:
        function(lambda x: strategy.run(code, (x,)))(given)
    assert last_line_here(raised.value).endswith(line)


def test_a_gradient_that_does_not_exist_names_its_line():
    with pytest.raises(GradientError, match=rf"asked for in {__file__}:\d+") as raised:
        function(gradient)(np.ones(2, np.float32))
    number = int(str(raised.value).rstrip(".").rpartition(":")[2])
    with open(__file__) as file:
        assert file.read().splitlines()[number - 1].endswith("# the gradient")


@pytest.mark.parametrize(
    "name",
    [
        "/cpu:1",
        "CPU:1",
        "/device:CPU:1",
        "/job:worker/replica:0/task:0/device:CPU:1",
        "/job:localhost/cpu:1",
        lambda: jax.devices("cpu")[1],
    ],
)
def test_devices_by_the_guides_strings(name):
    device = name() if callable(name) else name
    assert OneDeviceStrategy(device).placement.sharding.device_set == {jax.devices("cpu")[1]}
    assert MirroredStrategy(["/cpu:0", device]).num_replicas_in_sync == 2


@pytest.mark.parametrize("name", ["/gpu:0", "GPU:0", "/job:worker/task:1/device:GPU:0", "/tpu:3", "/cpu:17"])
def test_a_device_that_does_not_exist_is_told_with_those_that_do(name):
    for make in (OneDeviceStrategy, lambda name: MirroredStrategy(["/cpu:0", name])):
        with pytest.raises(
            ValueError, match=f"no device '{name}' here. JAX has: /cpu:0, /cpu:1, /cpu:2, /cpu:3"
        ):
            make(name)


def test_variables_are_not_created_by_replicas():
    with pytest.raises(TraceError, match="creates the variable 'mine' at every call. Create variables"):
        mirrored().run(lambda: keras.Variable(1.0, name="mine") + 1)
    with pytest.raises(TraceError, match="initial value of the variable 'mine' is computed inside"):
        mirrored().run(
            lambda: keras.Variable(get_replica_context().replica_id_in_sync_group, name="mine") + 1
        )


def test_outputs_of_several_shapes():
    def rows():
        return keras.ops.ones((get_replica_context().replica_id_in_sync_group + 1, 2))

    with pytest.raises(TypeError, match="Shapes must be 1D sequences of concrete values") as raised:
        mirrored().run(rows)
    assert "replica_id_in_sync_group + 1" in last_line_here(raised.value)


def test_a_batch_smaller_than_the_replicas_counts_once():
    strategy = MirroredStrategy([f"/cpu:{i}" for i in range(3)])
    data = strategy.experimental_distribute_dataset(Dataset.range(5).batch(2))
    with strategy.scope():
        total = keras.Variable(0, dtype="int32", aggregation="sum", trainable=False)
    for batch in data:
        strategy.run(lambda x: total.assign_add(keras.ops.cast(keras.ops.sum(x), "int32")), (batch,))
    assert int(total) == 0 + 1 + 2 + 3 + 4


def test_unbatched_data():
    for strategy in (mirrored(), OneDeviceStrategy("/cpu:0")):
        with pytest.raises(ValueError, match="not batches. Call the `batch` method"):
            next(iter(strategy.experimental_distribute_dataset(Dataset.range(3))))


def test_mixing_strategies():
    one, other = mirrored(), OneDeviceStrategy("/cpu:0")
    with one.scope():
        for mixed in (
            lambda: other.run(lambda: 1.0),
            lambda: other.scope().__enter__(),
            lambda: get_strategy().run(lambda: other.run(lambda: 1.0)),
        ):
            with pytest.raises(RuntimeError):
                mixed()
    with pytest.raises(RuntimeError, match="requires being in cross-replica context"):
        one.run(lambda: one.run(lambda: 1.0))
    with pytest.raises(RuntimeError, match="requires being in cross-replica context"):
        one.run(lambda: one.scope().__enter__())


def test_values_of_one_strategy_in_another():
    value = PerReplica(np.ones((4, 2), np.float32))
    for strategy in (mirrored(), OneDeviceStrategy("/cpu:0")):
        with pytest.raises(ValueError, match=f"A value of 4 replicas was passed to {strategy}, which has"):
            strategy.run(lambda x: x, (value,))
        with pytest.raises(ValueError, match="A value of 4 replicas"):
            strategy.reduce("SUM", value)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_dataset_where_batches_are_wanted(strategy):
    strategy = STRATEGIES[strategy]()
    dataset = strategy.experimental_distribute_dataset(Dataset.from_tensor_slices(np.ones(8)).batch(4))
    for run in (strategy.run, function(lambda fn, args: strategy.run(fn, args))):
        with pytest.raises(TypeError, match=r"run was passed a dataset.*args=\(batch,\)"):
            run(lambda data: 0, (dataset,))
        if strategy.num_replicas_in_sync > 1:
            with pytest.raises(TypeError, match=r"passed an iterator.*args=\(next\(iterator\),\)"):
                run(next, (iter(dataset),))
        else:
            assert run(next, (iter(dataset),)).shape == (4,)
    with pytest.raises(TypeError, match="reduce was passed a dataset"):
        strategy.reduce("SUM", dataset)
    with pytest.raises(TypeError, match="gather was passed a dataset"):
        strategy.gather(dataset, axis=0)


LONG_ROWS = np.array([[1], [2], [3], [2**40]])
TOO_LONG = (
    r"input of a step holds 1099511627776{}, a number of type int64 that does not fit into int32.*2\*\*31"
)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_number_beyond_32_bits_in_a_loop(strategy):
    strategy = STRATEGIES[strategy]()
    counter = keras.Variable(0, dtype="int32")

    @function
    def step(batch):
        counter.assign_add(1)
        return strategy.run(lambda batch: batch["id"] * 2, (batch,))

    batches = strategy.experimental_distribute_dataset(
        Dataset.from_tensor_slices({"id": np.tile(LONG_ROWS, (2, 1))}).batch(2)
    )
    iterator = iter(batches)
    step(next(iterator))
    with pytest.raises(DatasetError, match=TOO_LONG.format("")):
        step(next(iterator))
    assert int(counter.value) == 1
    step(next(iterator))
    assert int(counter.value) == 2


@pytest.mark.parametrize("strategy", ["one device", "mirrored 2"])
def test_a_number_beyond_32_bits_in_fit(strategy):
    with STRATEGIES[strategy]().scope():
        given = keras.Input((1,), dtype="int32", name="id")
        model = keras.Model({"id": given}, keras.layers.Embedding(8, 2)(given))
        model.compile("sgd", "mse")
    rows = np.concatenate([LONG_ROWS[:3], LONG_ROWS])
    targets = np.ones((7, 1, 2), np.float32)
    with pytest.raises(DatasetError, match=TOO_LONG.format(" in 'id'")):
        model.fit(Dataset.from_tensor_slices(({"id": rows}, targets)).batch(2), verbose=0)
    assert int(model.optimizer.iterations.value) == 3
