"""Rows that a mask chooses in the steps of replicas: two compute what one does, uncompiled."""

import numpy as np
import pytest

import muster_tensorflow as tf

X = np.random.RandomState(0).rand(8, 2).astype("float32")
Y = np.array([0, -1, 2, -1, -1, 1, 0, -1])  # as many of each replica, for the mean of their means


def trained(strategy):
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(3, kernel_initializer="zeros", input_shape=(2,))])
        optimizer = tf.keras.optimizers.SGD(0.1)
        accuracy, mean = tf.keras.metrics.SparseCategoricalAccuracy(), tf.keras.metrics.Mean()
        losses = {
            how: tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=how)
            for how in ("none", "sum", "sum_over_batch_size")
        }
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8).repeat(2)
    iterator = iter(strategy.experimental_distribute_dataset(dataset))

    def replica_step(batch):
        x, y = batch
        with tf.GradientTape() as tape:
            logits = model(x)
            outputs, labels = tf.boolean_mask(logits, y != -1), tf.boolean_mask(y, y != -1)
            by_row = losses["none"](labels, outputs)
            loss = tf.nn.compute_average_loss(by_row, global_batch_size=4)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        accuracy.update_state(labels, outputs)
        mean.update_state(by_row)
        return loss, losses["sum"](labels, outputs), losses["sum_over_batch_size"](labels, outputs)

    @tf.function
    def step():
        return strategy.run(replica_step, args=(next(iterator),))

    seen = []
    for _ in range(2):
        loss, total, average = step()
        count = strategy.num_replicas_in_sync
        seen += [float(strategy.reduce("SUM", each, None)) for each in (loss, total)]
        seen.append(float(strategy.reduce("SUM", average, None)) / count)
    with pytest.raises(tf.errors.OutOfRangeError):
        step()
    return [*seen, float(accuracy.result()), float(mean.result()), *np.ravel(model.layers[0].kernel)]


def test_replicas_leave_rows_out():
    one = trained(tf.distribute.OneDeviceStrategy("/cpu:0"))
    two = trained(tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]))
    np.testing.assert_allclose(one[:3], [1.0986123, 4.394449, 1.0986123], rtol=1e-5)
    np.testing.assert_allclose(two, one, rtol=1e-5)
