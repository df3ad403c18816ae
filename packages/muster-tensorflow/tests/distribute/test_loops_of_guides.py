"""Programs of TensorFlow's guides on custom loops: what replicas count, and batches that functions draw."""

import numpy as np
import pytest

import muster_tensorflow as tf
from muster._errors import DatasetError


def test_variables_that_replicas_keep():
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        seen = tf.Variable(
            0.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
        count = tf.Variable(0.0, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
    strategy.run(lambda: (seen.assign_add(1.0), count.assign_add(1.0)) and None)

    def own(variable):
        return [each.tolist() for each in strategy.experimental_local_results(variable)]

    assert (float(seen), own(seen), seen.trainable) == (2, [1, 1], False)
    assert (float(count), own(count), count.trainable) == (1, [1, 1], True)


def test_a_loop_that_draws_batches():
    mirrored_strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    global_batch_size = 8

    with mirrored_strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1, use_bias=False)])
        model.set_weights([np.zeros((1, 1), np.float32)])
        optimizer = tf.keras.optimizers.SGD(learning_rate=0.1)

    dataset = tf.data.Dataset.from_tensors(([1.0], [1.0])).repeat(1000).batch(global_batch_size)
    dist_dataset = mirrored_strategy.experimental_distribute_dataset(dataset)

    loss_object = tf.keras.losses.BinaryCrossentropy(from_logits=True, reduction=None)

    def train_step(inputs):
        features, labels = inputs

        with tf.GradientTape() as tape:
            predictions = model(features, training=True)
            per_example_loss = loss_object(labels, predictions)
            loss = tf.nn.compute_average_loss(per_example_loss, global_batch_size=global_batch_size)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))  # noqa: B905
        return loss

    @tf.function
    def distributed_train_step(iterator):
        per_replica_losses = mirrored_strategy.run(train_step, args=(next(iterator),))
        return mirrored_strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_losses, axis=None)

    iterator = iter(dist_dataset)
    losses = [float(distributed_train_step(iterator)) for _ in range(10)]
    weight, expected = 0.0, []
    for _ in range(10):
        expected.append(np.log1p(np.exp(-weight)))
        weight += 0.1 / (1 + np.exp(weight))
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for _ in range(115):
        distributed_train_step(iterator)
    with pytest.raises(tf.errors.OutOfRangeError):
        distributed_train_step(iterator)
    assert int(optimizer.iterations) == 125


def test_a_label_is_named_before_a_checkpoint_is_saved(tmp_path):
    labels = np.arange(64) % 5
    labels[45] = 5
    features = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(5)])
        optimizer = tf.keras.optimizers.SGD()
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(loss_of(labels, model(images))) / 8
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    @tf.function
    def train(batch):
        strategy.run(step, args=batch)

    saved = tf.train.Checkpoint(model=model)

    def train_and_save():
        dataset = tf.data.Dataset.from_tensor_slices((features, labels)).batch(8)
        for batch in strategy.experimental_distribute_dataset(dataset):
            train(batch)
            saved.save(tmp_path / "ckpt")

    with pytest.raises(DatasetError, match="label value of 5 which is outside"):
        train_and_save()
    assert tf.train.latest_checkpoint(tmp_path).endswith("-5")
