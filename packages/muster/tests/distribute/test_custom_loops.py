"""Custom training loops. That every strategy gives what one device does is in test_conformance.py."""

import re

import numpy as np
import pytest

import muster
from muster import keras
from muster.data import Dataset
from muster.distribute import (
    CentralStorageStrategy,
    DatasetCreator,
    MirroredStrategy,
    PerReplica,
    ReduceOp,
    function,
    get_replica_context,
    get_strategy,
    in_cross_replica_context,
)

BATCH = 12
STEPS = 50


def mirrored(count):
    return MirroredStrategy([f"/cpu:{i}" for i in range(count)])


OPTIMIZERS = {
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)),
    "accumulated": lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2),
}


def train(strategy, optimizer):
    """The losses, the metric and the weights of the guide's loop."""
    keras.utils.set_random_seed(1)
    with strategy.scope():
        layers = [keras.layers.Dense(16, activation="relu"), keras.layers.Dense(3)]
        model = keras.Sequential([keras.Input((8,)), *layers])
        optimizer = OPTIMIZERS[optimizer]()
        accuracy = keras.metrics.SparseCategoricalAccuracy()
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)

    def step(batch):
        x, y = batch
        with muster.GradientTape() as tape:
            logits = model(x, training=True)
            loss = keras.ops.sum(loss_of(y, logits)) / BATCH
            target = optimizer.scale_loss(loss)
        grads = tape.gradient(target, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        accuracy.update_state(y, logits)
        return loss

    @function
    def distributed_step(batch):
        return strategy.reduce(ReduceOp.SUM, strategy.run(step, args=(batch,)), axis=None)

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(BATCH * STEPS, 8)).astype(np.float32), rng.integers(0, 3, BATCH * STEPS)
    data = Dataset.from_tensor_slices(rows).batch(BATCH)
    losses = [float(distributed_step(batch)) for batch in strategy.experimental_distribute_dataset(data)]
    return losses, float(accuracy.result()), [np.array(weight.value) for weight in model.weights]


@pytest.mark.samples("scaled")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers_that_wrap_steps_do_with_two_replicas_what_they_do_with_one(optimizer):
    losses, accuracy, weights = train(mirrored(2), optimizer)
    expected, expected_accuracy, expected_weights = train(get_strategy(), optimizer)
    assert len(losses) == STEPS
    np.testing.assert_allclose(losses, expected, atol=1e-5)
    assert accuracy == pytest.approx(expected_accuracy, abs=1e-7)
    for weight, same in zip(weights, expected_weights, strict=True):
        np.testing.assert_allclose(weight, same, rtol=1e-4, atol=1e-6)


def test_two_optimizers_take_turns_on_two_models():
    """As a GAN's do: each tape's gradients go to their own model."""
    strategy = mirrored(2)
    with strategy.scope():
        first, second = keras.layers.Dense(1, use_bias=False), keras.layers.Dense(1, use_bias=False)
        for layer in (first, second):
            layer.build((None, 2))
            layer.set_weights([np.ones((2, 1), np.float32)])
        optimizers = [keras.optimizers.SGD(0.5), keras.optimizers.SGD(1.0)]

    @function
    def step(x):
        def on_replica(x):
            with muster.GradientTape() as one, muster.GradientTape() as other:
                y = first(x)
                z = second(y * np.ones((1, 2), np.float32))
                losses = keras.ops.mean(y) / 2, keras.ops.mean(z) / 2
            pairs = [(one, first, losses[0]), (other, second, losses[1])]
            for (tape, layer, loss), optimizer in zip(pairs, optimizers, strict=True):
                grads = tape.gradient(loss, layer.trainable_variables)
                optimizer.apply_gradients(zip(grads, layer.trainable_variables, strict=True))

        strategy.run(on_replica, (x,))

    x = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    step(PerReplica(x[:, None]))
    np.testing.assert_allclose(first.kernel.value[:, 0], 1 - 0.5 * x.mean(0), rtol=1e-6)
    np.testing.assert_allclose(second.kernel.value[:, 0], 1 - x.sum(1).mean() * np.ones(2), rtol=1e-6)


def test_several_steps_are_one_call():
    strategy = mirrored(2)
    with strategy.scope():
        total = keras.Variable(0.0, aggregation="sum")

    @function
    def steps(batches):
        for batch in batches:
            strategy.run(lambda x: total.assign_add(keras.ops.sum(x)), (batch,))

    steps(list(strategy.experimental_distribute_dataset(Dataset.range(16).batch(4))))
    assert float(total) == sum(range(16))


def test_a_function_is_traced_once_for_each_kind_of_arguments():
    traces = []

    @function
    def scaled(x, factor=1.0):
        traces.append((x.shape, factor))
        return x * factor

    for _ in range(3):
        np.testing.assert_array_equal(scaled(np.ones(2, np.float32)), np.ones(2))
    assert len(set(traces)) == 1
    number = len(traces)
    scaled(np.ones(2, np.float32), factor=2.0)
    scaled(np.ones(3, np.float32))
    assert len(traces) == 3 * number
    assert np.asarray(scaled(np.ones(2, np.float32), factor=2.0)).sum() == 4


def test_a_method_may_be_a_function():
    class Counter:
        def __init__(self):
            self.count = keras.Variable(0, dtype="int32")

        @function
        def add(self, x):
            self.count.assign_add(x)
            return {"count": self.count, "text": "as it is"}

    one, other = Counter(), Counter()
    one.add(np.int32(1))
    assert int(one.add(np.int32(2))["count"]) == 3
    assert other.add(np.int32(5)) == {"count": 5, "text": "as it is"}


def test_layers_are_built_at_the_first_call_and_variables_made_at_every_call_are_refused():
    layer = keras.layers.Dense(2)
    assert function(lambda x: layer(x))(np.ones((1, 3), np.float32)).shape == (1, 2)
    assert np.isfinite(layer.kernel.value).all()
    with pytest.raises(ValueError, match="creates the variable 'every_time' at every call"):
        function(lambda: keras.Variable(1.0, name="every_time") + 1)()


def test_contexts():
    strategy = mirrored(2)
    assert not in_cross_replica_context()
    assert get_replica_context().num_replicas_in_sync == 1
    with strategy.scope():
        assert in_cross_replica_context()
        assert get_replica_context() is None

    def on_replica():
        seen.append((in_cross_replica_context(), get_strategy() is strategy))
        return get_replica_context().replica_id_in_sync_group

    seen = []
    ids = strategy.run(on_replica)
    assert set(seen) == {(False, True)}
    assert [int(each) for each in ids.values] == [0, 1]
    with pytest.raises(RuntimeError, match="requires being in cross-replica context"):
        strategy.run(lambda: strategy.reduce("SUM", 1.0))


def test_what_replicas_tell_each_other():
    strategy = mirrored(3)

    def on_replica(x):
        context = get_replica_context()
        merged = context.merge_call(lambda s, value: s.reduce("MEAN", value), args=(x,))
        return context.all_reduce("SUM", {"x": x}), context.all_gather(x[None], axis=0), merged

    values = strategy.experimental_distribute_values_from_function(
        lambda context: np.float32(context.replica_id_in_sync_group + 1)
    )
    total, gathered, merged = strategy.run(on_replica, (values,))
    assert [float(each) for each in total["x"].values] == [6, 6, 6]
    assert [list(map(float, each)) for each in gathered.values] == [[1, 2, 3]] * 3
    assert [float(each) for each in merged.values] == [2, 2, 2]
    assert float(strategy.reduce("MEAN", values)) == 2


def test_constants_of_replicas_are_merged_as_values_of_each():
    def on_replica():
        merge = lambda s, a, b: s.reduce("SUM", a) + s.reduce("MEAN", b)  # noqa: E731
        return get_replica_context().merge_call(merge, args=(np.float32(2), np.array(3)))

    assert [float(each) for each in mirrored(2).run(on_replica).values] == [7, 7]


def test_a_sum_over_replicas_is_differentiable():
    strategy = mirrored(2)

    def on_replica(x):
        with muster.GradientTape() as tape:
            y = get_replica_context().all_reduce("SUM", x**2)
        return tape.gradient(y, x)

    # Each replica's loss is the sum, so that each x is in two losses.
    grads = strategy.run(on_replica, (PerReplica(np.array([1.0, 2.0], np.float32)),))
    assert [float(each) for each in grads.values] == [4.0, 8.0]


@pytest.mark.parametrize(
    ("aggregation", "assigned", "added"),
    [("sum", 1.0 + 2.0, 5.0 + 1.0 + 2.0), ("mean", 1.5, 5.0 + 1.5), ("only_first_replica", 1.0, 5.0 + 1.0)],
)
def test_variables_become_what_their_aggregation_says(aggregation, assigned, added):
    strategy = mirrored(2)
    with strategy.scope():
        variable = keras.Variable(5.0, aggregation=aggregation, trainable=False)

    def mine():
        return keras.ops.cast(get_replica_context().replica_id_in_sync_group, "float32") + 1

    strategy.run(lambda: variable.assign_add(mine()))
    assert float(variable) == added
    strategy.run(lambda: variable.assign(mine()))
    assert float(variable) == assigned


def test_each_replica_assigns_to_its_copy_of_a_variable_without_aggregation():
    strategy = mirrored(2)
    with strategy.scope():
        variable = keras.Variable(5.0, trainable=False, name="mine")
    strategy.run(lambda: variable.assign_add(keras.ops.cast(number(), "float32")))
    assert float(variable) == 5
    assert [float(each) for each in strategy.experimental_local_results(variable)] == [5, 6]


def test_a_variable_of_no_strategy_cannot_be_assigned_by_replicas():
    variable = keras.Variable(5.0, trainable=False, name="mine")
    with pytest.raises(ValueError, match="the variable mine float32.* must specify an aggregation method"):
        mirrored(2).run(lambda: variable.assign(1.0))
    assert float(variable) == 5


def number():
    return muster.distribute.get_replica_context().replica_id_in_sync_group


def test_a_model_of_another_scope_cannot_be_trained():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="outside")])
    optimizer = keras.optimizers.SGD(0.1)
    strategy = mirrored(2)

    def step():
        with muster.GradientTape() as tape:
            loss = keras.ops.mean(model(np.ones((1, 2), np.float32)))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))

    with pytest.raises(ValueError, match="cannot train .* created outside of any strategy's scope"):
        strategy.run(step)


def test_dropout_differs_between_replicas_and_goes_on_from_step_to_step():
    strategy = mirrored(2)
    with strategy.scope():
        dropout = keras.layers.Dropout(0.5, seed=1)
    x = PerReplica(np.ones((2, 64), np.float32))
    call = function(lambda x: strategy.run(lambda x: dropout(x, training=True), (x,)))
    first, second = call(x).values, call(x).values
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first[0], second[0])


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda s: s.run(len, "text"), ValueError, "must be a list or tuple"),
        (lambda s: s.reduce("MAX", 1.0), ValueError, "one of SUM and MEAN, got 'MAX'"),
        (lambda s: s.reduce("SUM", 1.0), ValueError, "cannot be reduced with the given reduce op"),
        (
            lambda s: s.reduce("SUM", PerReplica(np.ones((2, 3))), axis=1),
            ValueError,
            "Invalid reduction dimension 1",
        ),
        (lambda s: s.gather(PerReplica(np.ones(2)), 0), ValueError, "rank 0"),
        (lambda s: s.experimental_distribute_dataset([1]), TypeError, "must be a Dataset, got list"),
        (lambda s: s.distribute_datasets_from_function(lambda c: 1), TypeError, "must return a Dataset"),
        (
            lambda s: next(iter(s.experimental_distribute_dataset(Dataset.range(3)))),
            ValueError,
            "Call the `batch` method",
        ),
        (
            lambda s: s.experimental_distribute_values_from_function(
                lambda c: np.ones((1,) * (c.replica_id_in_sync_group + 1))
            ),
            ValueError,
            "differ in type or rank",
        ),
    ],
)
def test_mistakes_are_told(call, error, says):
    with pytest.raises(error, match=says):
        call(mirrored(2))


ROWS = np.ones((4, 2)), np.ones(4)


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ([ROWS, ROWS], "from_loader(data)"),
        (iter([ROWS]), "from_loader(data)"),
        (ROWS, "from_tensor_slices(muster.data.as_arrays(data)).batch(32)"),
        ({"x": [1, 2]}, "from_tensor_slices(muster.data.as_arrays(data)).batch(32)"),
        (type("Rows", (), {"__len__": None, "__getitem__": None})(), "from_source(data)"),
    ],
    ids=["a list of batches", "an iterator", "arrays", "columns", "rows"],
)
def test_what_is_no_dataset_is_refused_with_the_line_that_makes_one(data, line):
    strategy = mirrored(2)
    for call in (
        strategy.experimental_distribute_dataset,
        lambda data: strategy.distribute_datasets_from_function(lambda context: data),
        lambda data: DatasetCreator(lambda context: data)(None),
    ):
        with pytest.raises(TypeError, match=f"Dataset.*{re.escape(line)}"):
            call(data)


def test_two_strategies_in_one_function_are_refused():
    one, other = mirrored(2), mirrored(2)

    @function
    def both():
        one.run(lambda: None)
        other.run(lambda: None)

    with pytest.raises(RuntimeError, match="Mixing different"):
        both()


def test_an_error_names_the_users_line_and_leaves_variables_as_they_were():
    strategy = mirrored(2)
    with strategy.scope():
        variable = keras.Variable(1.0, aggregation="mean", trainable=False)

    def on_replica(x):
        variable.assign_add(1.0)
        return x @ np.ones((3, 3), np.float32)  # does not fit

    step = function(lambda x: strategy.run(on_replica, (x,)))
    with pytest.raises(TypeError, match="dot_general") as raised:
        step(PerReplica(np.ones((2, 5, 2), np.float32)))
    assert (__file__, "on_replica") in [(str(entry.path), entry.name) for entry in raised.traceback]
    assert float(variable) == 1


def test_central_storage_keeps_variables_on_its_device():
    strategy = CentralStorageStrategy(["/cpu:1", "/cpu:2"], parameter_device="/cpu:3")
    with strategy.scope():
        variable = keras.Variable(1.0, aggregation="sum", trainable=False)
    strategy.run(lambda: variable.assign_add(1.0))
    assert float(variable) == 3
    assert [device.id for device in variable.value.devices()] == [3]


def test_a_function_without_a_strategy_uses_what_a_strategy_trains():
    strategy = mirrored(2)
    with strategy.scope():
        variable = keras.Variable(1.0, aggregation="sum", trainable=False)
    scaled = function(lambda x: variable * x)
    assert float(scaled(np.float32(2))) == 2
    strategy.run(lambda: variable.assign_add(1.0))
    assert float(scaled(np.float32(2))) == 6
    total = strategy.reduce("SUM", PerReplica(np.array([1.0, 3.0], np.float32)))
    assert float(scaled(total)) == 12
