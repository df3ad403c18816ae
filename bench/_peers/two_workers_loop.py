"""Train in a custom loop as one of two workers, in muster or, if it is installed, in TensorFlow."""

import time

from two_workers import BATCH, CHECK_STEPS, LEARNING_RATE, STEPS, data, kernel, report

try:
    import tensorflow as tf
except ImportError:
    import muster_tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()

with strategy.scope():
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Conv2D(32, 3, activation="relu", kernel_initializer=kernel, input_shape=(28, 28, 1)),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu", kernel_initializer=kernel),
            layers.Dense(10, kernel_initializer=kernel),
        ]
    )
    optimizer = tf.keras.optimizers.SGD(LEARNING_RATE)
    loss_object = tf.keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=tf.keras.losses.Reduction.NONE
    )


def replica_step(batch):
    images, labels = batch
    with tf.GradientTape() as tape:
        each = loss_object(labels, model(images, training=True))
        loss = tf.nn.compute_average_loss(each, global_batch_size=2 * BATCH)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


@tf.function
def train_step(batch):
    losses = strategy.run(replica_step, args=(batch,))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


dataset = strategy.distribute_datasets_from_function(
    lambda context: (
        tf.data.Dataset.from_tensor_slices(data()).batch(BATCH, drop_remainder=True).cache().repeat()
    )
)
batches = iter(dataset)
losses = [float(train_step(next(batches))) for _ in range(CHECK_STEPS)]
began = time.perf_counter()
for _ in range(STEPS - CHECK_STEPS):
    loss = train_step(next(batches))
float(loss)
report(losses, time.perf_counter() - began)
