"""A training loop of one's own under MirroredStrategy, with metrics, checkpoints, and two ways to iterate."""

import os

import numpy as np

import muster_tensorflow as tf

tf.keras.utils.set_random_seed(7)

cpus = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
print("Number of devices:", strategy.num_replicas_in_sync)

rng = np.random.default_rng(0)
labels = rng.integers(0, 4, 1100)
images = rng.normal(0, 0.5, (1100, 8, 8)).astype(np.float32)
images[np.arange(1100), labels * 2, :] += 1.0
train_images, test_images = images[:1000, ..., None], images[1000:, ..., None]
train_labels, test_labels = labels[:1000], labels[1000:]

BUFFER_SIZE = len(train_images)
GLOBAL_BATCH_SIZE = 32 * strategy.num_replicas_in_sync
EPOCHS = 4

train_dataset = (
    tf.data.Dataset.from_tensor_slices((train_images, train_labels))
    .shuffle(BUFFER_SIZE)
    .batch(GLOBAL_BATCH_SIZE)
)
test_dataset = tf.data.Dataset.from_tensor_slices((test_images, test_labels)).batch(GLOBAL_BATCH_SIZE)
train_dist_dataset = strategy.experimental_distribute_dataset(train_dataset)
test_dist_dataset = strategy.experimental_distribute_dataset(test_dataset)


def create_model():
    regularizer = tf.keras.regularizers.L2(1e-5)
    return tf.keras.Sequential(
        [
            tf.keras.layers.Conv2D(8, 3, activation="relu", kernel_regularizer=regularizer),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(32, activation="relu", kernel_regularizer=regularizer),
            tf.keras.layers.Dense(4, kernel_regularizer=regularizer),
        ]
    )


checkpoint_prefix = os.path.join("./training_checkpoints", "ckpt")

with strategy.scope():
    loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def compute_loss(labels, predictions, model_losses):
        per_example_loss = loss_object(labels, predictions)
        loss = tf.nn.compute_average_loss(per_example_loss, global_batch_size=GLOBAL_BATCH_SIZE)
        if model_losses:
            loss += tf.nn.scale_regularization_loss(tf.add_n(model_losses))
        return loss

    test_loss = tf.keras.metrics.Mean(name="test_loss")
    train_accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="train_accuracy")
    test_accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="test_accuracy")
    model = create_model()
    model.build((None, 8, 8, 1))
    optimizer = tf.keras.optimizers.Adam(learning_rate=0.003)
    optimizer.build(model.trainable_variables)
    checkpoint = tf.train.Checkpoint(optimizer=optimizer, model=model)


def train_step(inputs):
    images, labels = inputs
    with tf.GradientTape() as tape:
        predictions = model(images, training=True)
        loss = compute_loss(labels, predictions, model.losses)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    train_accuracy.update_state(labels, predictions)
    return loss


def test_step(inputs):
    images, labels = inputs
    predictions = model(images, training=False)
    t_loss = tf.reduce_mean(loss_object(labels, predictions))
    test_loss.update_state(t_loss)
    test_accuracy.update_state(labels, predictions)


@tf.function
def distributed_train_step(dataset_inputs):
    per_replica_losses = strategy.run(train_step, args=(dataset_inputs,))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_losses, axis=None)


@tf.function
def distributed_test_step(dataset_inputs):
    return strategy.run(test_step, args=(dataset_inputs,))


losses = []
for epoch in range(EPOCHS):
    total_loss = 0.0
    num_batches = 0
    for x in train_dist_dataset:
        total_loss += distributed_train_step(x)
        num_batches += 1
    train_loss = total_loss / num_batches
    for x in test_dist_dataset:
        distributed_test_step(x)
    if epoch % 2 == 0:
        checkpoint.save(checkpoint_prefix)
    losses.append(float(train_loss))
    print(f"Epoch {epoch + 1}, Loss: {float(train_loss)}, Accuracy: {float(train_accuracy.result()) * 100}")
    print(f"Test Loss: {float(test_loss.result())}, Test Accuracy: {float(test_accuracy.result()) * 100}")
    if epoch < EPOCHS - 1:
        test_loss.reset_state()
        train_accuracy.reset_state()
        test_accuracy.reset_state()
assert losses[-1] < losses[0] / 2, losses
assert float(test_accuracy.result()) > 0.9

# Restored outside of the strategy's scope.
eval_accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="eval_accuracy")
new_model = create_model()
new_model.build((None, 8, 8, 1))
new_optimizer = tf.keras.optimizers.Adam()
new_optimizer.build(new_model.trainable_variables)


@tf.function
def eval_step(images, labels):
    predictions = new_model(images, training=False)
    eval_accuracy(labels, predictions)


checkpoint = tf.train.Checkpoint(optimizer=new_optimizer, model=new_model)
checkpoint.restore(tf.train.latest_checkpoint("./training_checkpoints"))
for images, labels in test_dataset:
    eval_step(images, labels)
print("Accuracy after restoring the saved model without strategy:", float(eval_accuracy.result()) * 100)
assert float(eval_accuracy.result()) > 0.8

# Batches from an iterator, and a whole epoch in a Python loop over it.
for _ in range(2):
    total_loss, num_batches = 0.0, 0
    train_iter = iter(train_dist_dataset)
    for _ in range(10):
        total_loss += distributed_train_step(next(train_iter))
        num_batches += 1
    average = float(total_loss / num_batches)
assert average < losses[0]
print("ok")
