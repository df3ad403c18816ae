"""Variables without an aggregation that replicas assign to: each has its copy, as in TensorFlow 2.15.1."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

Synchronization = tf.VariableSynchronization


@pytest.fixture
def strategy() -> Any:
    return tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])


def number() -> Any:
    return tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)


def copies(strategy: Any, value: Any) -> list[Any]:
    return [np.asarray(each).tolist() for each in strategy.experimental_local_results(value)]


CHANGES = {
    "assign_add": (lambda v: v.assign_add(number() + 1.0), [2.0, 3.0]),
    "assign": (lambda v: v.assign(number() + 5.0), [5.0, 6.0]),
    "assign_sub": (lambda v: v.assign_sub(number()), [1.0, 0.0]),
    "twice": (lambda v: v.assign_add(v.assign_add(number())), [2.0, 4.0]),
}


@pytest.mark.parametrize("synchronization", ["AUTO", "ON_WRITE", "ON_READ"])
@pytest.mark.parametrize("how", CHANGES)
def test_each_replica_changes_its_copy(strategy: Any, how: str, synchronization: str) -> None:
    change, expected = CHANGES[how]
    with strategy.scope():
        variable = tf.Variable(1.0, trainable=False, synchronization=Synchronization[synchronization])
    returned = tf.function(lambda: strategy.run(lambda: change(variable)))()
    assert copies(strategy, returned) == copies(strategy, variable) == expected
    # Of ON_READ without an aggregation TensorFlow has no value outside of the replicas.
    assert float(variable.numpy()) == expected[0] == float(tf.function(lambda: variable + 0.0)())


def test_copies_stay_apart_from_step_to_step(strategy: Any) -> None:
    with strategy.scope():
        variable = tf.Variable(1.0, trainable=False)
    add = tf.function(lambda: strategy.run(lambda: variable.assign_add(number() + 1)))
    add()
    add()
    assert copies(strategy, tf.function(lambda: strategy.run(lambda: variable * 2))()) == [6.0, 10.0]
    with strategy.scope():
        variable.assign(7.0)
    add()
    assert copies(strategy, variable) == [8.0, 9.0]


def test_counters_of_any_type(strategy: Any) -> None:
    with strategy.scope():
        count, flag = tf.Variable(0, trainable=False), tf.Variable(False, trainable=False)

    @tf.function
    def step(limit: Any) -> None:
        def replica() -> None:
            if limit > 1:
                count.assign_add(1)
            for _ in tf.range(3):
                count.assign_add(2)
            flag.assign(True)

        strategy.run(replica)

    step(tf.constant(2))
    step(tf.constant(0))
    assert copies(strategy, count) == [13, 13]
    assert int(count.numpy()) == 13
    assert bool(flag.numpy())


def test_rows_of_the_copies(strategy: Any) -> None:
    with strategy.scope():
        table = tf.Variable(tf.zeros((3, 1)), trainable=False)
    strategy.run(lambda: table.scatter_add(tf.IndexedSlices(tf.ones((1, 1)) * (number() + 1), [0])))
    strategy.run(lambda: table.scatter_update(tf.IndexedSlices(tf.ones((1, 1)), [2])))
    assert copies(strategy, table) == [[[1.0], [0.0], [1.0]], [[2.0], [0.0], [1.0]]]


class Counting(tf.keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dense = tf.keras.layers.Dense(1)
        self.seen = tf.Variable(0, trainable=False)

    def build(self, shape: Any) -> None:
        self.dense.build(shape)
        self.steps = self.add_weight(
            name="steps", shape=(), initializer="zeros", dtype="int32", trainable=False
        )

    def call(self, x: Any, training: bool = False) -> Any:
        if training:
            self.seen.assign_add(1)
            self.steps.assign_add(1)
        return self.dense(x)


def test_a_model_that_counts_its_calls(strategy: Any, tmp_path: Path) -> None:
    with strategy.scope():
        model, optimizer = Counting(), tf.keras.optimizers.SGD(0.1)
        model(tf.ones((1, 2)))
    data = tf.data.Dataset.from_tensor_slices(np.ones((8, 2), np.float32)).batch(4)

    @tf.function
    def step(batch: Any) -> Any:
        def replica(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model(x, training=True) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        return strategy.run(replica, args=(batch,))

    for batch in strategy.experimental_distribute_dataset(data):
        step(batch)
    assert (int(model.seen.numpy()), int(model.steps.numpy())) == (2, 2)
    saved = tf.train.Checkpoint(model=model).save(str(tmp_path / "ckpt"))
    for batch in strategy.experimental_distribute_dataset(data):
        step(batch)
    tf.train.Checkpoint(model=model).restore(saved)
    assert copies(strategy, model.seen) == [2, 2]


def test_a_checkpoint_has_the_first_copy(strategy: Any, tmp_path: Path) -> None:
    with strategy.scope():
        variable = tf.Variable(0.0, trainable=False)
    strategy.run(lambda: variable.assign(number() + 3))
    saved = tf.train.Checkpoint(v=variable).save(str(tmp_path / "ckpt"))
    strategy.run(lambda: variable.assign(number() + 30))
    tf.train.Checkpoint(v=variable).restore(saved)
    assert copies(strategy, variable) == [3.0, 3.0]


def test_a_variable_of_no_strategy_gets_what_all_replicas_add(strategy: Any) -> None:
    variable = tf.Variable(0.0, trainable=False)
    add = tf.function(lambda: strategy.run(lambda: variable.assign_add(number() + 1)))
    add()
    add()
    assert float(variable.numpy()) == 6.0
    with pytest.raises(
        ValueError, match=r"a single copy.* must specify an aggregation method.*in the scope of"
    ):
        strategy.run(lambda: variable.assign(number()))


def test_a_model_fn_that_counts_keeps_the_count_of_the_first(strategy: Any, tmp_path: Path) -> None:
    v1 = tf.compat.v1

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        count = v1.get_variable("count", (), tf.int32, v1.zeros_initializer(), trainable=False)
        w = v1.get_variable("w", ())
        loss = tf.reduce_mean(labels) * w
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        train_op = tf.group(optimizer.minimize(loss, v1.train.get_global_step()), count.assign_add(1))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    data = tf.data.Dataset.from_tensors((np.ones((2, 1), np.float32),) * 2).repeat()
    estimator = tf.estimator.Estimator(
        model_fn, str(tmp_path), tf.estimator.RunConfig(train_distribute=strategy)
    )
    estimator.train(lambda: data, steps=3)
    assert estimator.get_variable_value("count") == 3
