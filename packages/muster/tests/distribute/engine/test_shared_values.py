"""Variables and arrays that hold the value of a variable while steps overwrite it."""

import contextlib
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fit_cases import BATCH, X, Y, built

import muster
from jobs import Job
from muster._keras import keras
from muster.distribute import CentralStorageStrategy, MirroredStrategy
from muster.program.variables._variable_scope import unshared_values

CHILD = Path(__file__).with_name("shared_values.py")
MAKERS = {
    "alone": lambda: None,
    "mirrored": lambda: MirroredStrategy(["/cpu:0"]),
    "mirrored2": lambda: MirroredStrategy(["/cpu:0", "/cpu:1"]),
    "central2": lambda: CentralStorageStrategy(["/cpu:0", "/cpu:1"]),
}
CALLS = {
    "fit": lambda model: model.fit(X, Y, batch_size=BATCH, verbose=0),
    "train_on_batch": lambda model: model.train_on_batch(X, Y),
    "evaluate": lambda model: model.evaluate(X, Y, verbose=0),
    "predict": lambda model: model.predict(X, verbose=0),
}

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture(scope="module", params=MAKERS)
def strategy(request):
    return MAKERS[request.param]()


def scope(strategy):
    return contextlib.nullcontext() if strategy is None else strategy.scope()


def model_of(strategy):
    with scope(strategy):
        return built("functional", "adam")


def numbers(variables):
    return [np.array(variable.value) for variable in variables]


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def stepping(strategy, model):
    """A step of training as a function."""
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def on_replica(x, y):
        with muster.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        grads = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        return loss

    @muster.function
    def step(x, y):
        if strategy is None:
            return on_replica(x, y)
        return strategy.reduce("SUM", strategy.run(on_replica, (x, y)), axis=None)

    return step


def batch_of(strategy):
    if strategy is None or strategy.num_replicas_in_sync == 1:
        return X[:BATCH], Y[:BATCH]
    data = muster.data.Dataset.from_tensor_slices((X[:BATCH], Y[:BATCH])).batch(BATCH)
    return next(iter(strategy.experimental_distribute_dataset(data)))


def assign_all(target, model):
    for to, variable in zip(target.variables, model.variables, strict=True):
        to.assign(variable)


@pytest.mark.samples("mirrored2", "alone")
def test_a_copy_of_a_model_stays_while_functions_train_the_model(strategy):
    model, target = model_of(strategy), model_of(strategy)
    step, batch = stepping(strategy, model), batch_of(strategy)
    for _ in range(3):  # of initial values; then of what a step has made
        assign_all(target, model)
        held = [variable.value for variable in model.variables]
        expected = numbers(model.variables)
        for _ in range(2):
            step(*batch)
        assert_same(numbers(target.variables), expected)
        assert_same([np.asarray(each) for each in held], expected)
        assert not np.array_equal(numbers(model.variables)[0], expected[0])


def test_two_variables_of_one_array_go_their_own_ways(strategy):
    with scope(strategy):
        one, two = (keras.Variable(np.zeros(3, np.float32), aggregation="mean") for _ in range(2))

    @muster.function
    def add(x):
        one.assign_add(x)
        two.assign_sub(x)
        return one + two

    for turn in range(2):
        two.assign(one)
        before = numbers([one])[0]
        np.testing.assert_array_equal(add(np.ones(3, np.float32)), 2 * before)
        assert_same(numbers([one, two]), [before + 1, before - 1])
        assert turn == before[0]


@pytest.mark.samples(
    "mirrored2-fit",
    "mirrored2-evaluate",
    "central2-train_on_batch",
    "mirrored-predict",
    "alone-fit",
    "alone-predict",
)
@pytest.mark.parametrize("call", CALLS)
def test_a_copy_of_a_model_stays_while_keras_works_on_the_model(strategy, call):
    if strategy is None:
        pytest.skip("Keras alone loses the copy.")
    model, target = model_of(strategy), model_of(strategy)
    for _ in range(3):
        assign_all(target, model)
        held = [variable.value for variable in model.variables]
        expected = numbers(model.variables)
        CALLS[call](model)
        assert_same(numbers(target.variables), expected)
        assert_same([np.asarray(each) for each in held], expected)


@pytest.mark.samples("mirrored2", "alone")
def test_a_copy_made_by_a_callback_stays(strategy):
    if strategy is None:
        pytest.skip("Keras alone loses the copy.")
    model, target = model_of(strategy), model_of(strategy)
    seen = []

    class Copies(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if seen:
                assert_same(numbers(target.variables), seen[-1])
            assign_all(target, model)
            seen.append(numbers(model.variables))

    model.fit(X, Y, batch_size=BATCH, epochs=3, verbose=0, callbacks=[Copies()])
    assert len(seen) == 3
    assert_same(numbers(target.variables), seen[-1])


@pytest.mark.samples("mirrored2")
def test_nothing_is_copied_that_nothing_else_holds(strategy):
    model = model_of(strategy)
    step, batch = stepping(strategy, model), batch_of(strategy)

    def ids(arrays):
        return [id(array) for array in arrays]

    def works():
        yield lambda: step(*batch)
        if strategy is not None:
            yield from (lambda call=call: call(model) for call in CALLS.values())

    for work in works():
        for _ in range(2):
            work()
            variables = [*model.variables, *model.optimizer.variables]
            assert ids(unshared_values(variables)) == ids([each.value for each in variables])
    held = model.variables[0].value
    found = unshared_values(model.variables)
    assert ids(found)[1:] == ids([each.value for each in model.variables])[1:]
    assert found[0] is not held
    np.testing.assert_array_equal(found[0], held)


@pytest.mark.samples("mirrored2", "alone")
def test_an_interrupted_fit_leaves_one_copy_although_its_traceback_is_kept(strategy):
    if strategy is None:
        pytest.skip("Keras alone.")

    class Interrupts(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise KeyboardInterrupt

    model = model_of(strategy)
    with pytest.raises(KeyboardInterrupt) as kept:
        model.fit(X, Y, batch_size=BATCH, verbose=0, callbacks=[Interrupts()])
    variables = [*model.variables, *model.optimizer.variables]
    assert [*map(id, unshared_values(variables))] == [id(each.value) for each in variables]
    assert kept.value is not None


def test_a_held_value_compiles_nothing(strategy, compilations):
    with scope(strategy):
        weights = [keras.Variable(np.zeros(3, np.float32), aggregation="mean") for _ in range(2)]

    def on_replica():
        for weight in weights:
            weight.assign_add(jnp.ones(3))

    step = muster.function(on_replica if strategy is None else lambda: strategy.run(on_replica))
    for _ in range(2):
        step()
    compilations.clear()
    for _ in range(3):
        held = weights[0].value
        step()
    assert not compilations
    np.testing.assert_array_equal(held, [4, 4, 4])


def test_layers_may_assign_a_variable_to_another_in_fit(strategy):
    class Keeps(keras.layers.Layer):
        def build(self, shape):
            self.now = self.add_weight(shape=(), initializer="ones")
            self.before = self.add_weight(shape=(), initializer="zeros", trainable=False)

        def call(self, x):
            self.before.assign(self.now)
            return x * self.now

    with scope(strategy):
        model = keras.Sequential([keras.Input((6,)), Keeps()])
        model.compile("sgd", "mse")
    model.fit(X[:BATCH], X[:BATCH] * 2, batch_size=BATCH, verbose=0)
    now, before = (float(weight.value) for weight in model.weights)
    assert before == 1 < now


def test_a_function_of_one_replica_leaves_alone_what_it_only_reads(strategy):
    model = model_of(strategy)

    def on_replica(x):
        return model(x, training=False)

    @muster.function
    def predict(x):
        return on_replica(x) if strategy is None else strategy.run(on_replica, (x,))

    x, _ = batch_of(strategy)
    predict(x)
    before = [variable.value for variable in model.variables]
    if strategy is None or strategy.num_replicas_in_sync == 1:
        first = predict(x)
        assert all(variable.value is value for variable, value in zip(model.variables, before, strict=True))
        model.variables[0].assign(jnp.zeros_like(before[0]))
        assert not np.array_equal(predict(x), first)
    else:
        predict(x)
        assert not any(value.is_deleted() for value in before)


@pytest.mark.parametrize("devices", [["/cpu:1"], ["/cpu:0", "/cpu:1"]])
def test_variables_are_moved_each_time_that_they_are_elsewhere(devices):
    strategy = MirroredStrategy(devices)
    with strategy.scope():
        total, rate = (keras.Variable(np.zeros(3, np.float32), aggregation="mean") for _ in range(2))

    def on_replica():
        total.assign_add(rate)

    step = muster.function(lambda: strategy.run(on_replica))
    expected = 0
    for turn in range(4):
        for _ in range(turn % 2 + 1):
            rate.assign(jax.device_put(np.full(3, turn, np.float32), jax.devices()[0]))
            step()
            assert len(rate.value.devices()) == len(devices)
            assert total.value.devices() == rate.value.devices()
            expected += turn
    there = rate.value
    step()
    np.testing.assert_array_equal(total.value, [expected + 3] * 3)
    if len(devices) == 1:
        assert rate.value is there  # it is only read


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("devices", [1, 2])
def test_what_one_of_two_workers_holds_stays(tmp_path, devices):
    with Job(tmp_path, [CHILD], worker=2) as job:
        for index in (0, 1):
            report = str(tmp_path / f"report{index}")
            job.start("worker", index, {"devices": devices, "holds": index == 1, "report": report})
        job.all_end_well()
    found = [json.loads((tmp_path / f"report{index}").read_text()) for index in (0, 1)]
    assert [each["total"] for each in found] == [[4.0 * devices] * 3] * 2
    assert found[0]["kept"] == 0
    assert found[1]["kept"] > 2
    assert found[1]["same"]
