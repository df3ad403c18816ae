"""Curves of a custom training loop for TensorBoard: a writer for training, and one for testing."""

import datetime
import os
import tempfile

import numpy as np

import muster_tensorflow as tf

tf.keras.utils.set_random_seed(7)

rng = np.random.default_rng(7)
centers = rng.normal(size=(3, 6)).astype("float32") * 3
labels = rng.integers(0, 3, 600).astype("int64")
points = centers[labels] + rng.normal(size=(600, 6)).astype("float32")
train_dataset = tf.data.Dataset.from_tensor_slices((points[:480], labels[:480])).shuffle(480).batch(48)
test_dataset = tf.data.Dataset.from_tensor_slices((points[480:], labels[480:])).batch(60)

model = tf.keras.models.Sequential(
    [
        tf.keras.layers.Input((6,)),
        tf.keras.layers.Dense(16, activation="relu"),
        tf.keras.layers.Dropout(0.1),
        tf.keras.layers.Dense(3, activation="softmax"),
    ]
)
loss_object = tf.keras.losses.SparseCategoricalCrossentropy()
optimizer = tf.keras.optimizers.Adam(0.01)
train_loss = tf.keras.metrics.Mean("train_loss", dtype=tf.float32)
train_accuracy = tf.keras.metrics.SparseCategoricalAccuracy("train_accuracy")
test_loss = tf.keras.metrics.Mean("test_loss", dtype=tf.float32)
test_accuracy = tf.keras.metrics.SparseCategoricalAccuracy("test_accuracy")


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        predictions = model(x, training=True)
        loss = loss_object(y, predictions)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
    train_loss(loss)
    train_accuracy(y, predictions)


@tf.function
def test_step(x, y):
    predictions = model(x)
    test_loss(loss_object(y, predictions))
    test_accuracy(y, predictions)


root = os.path.join(tempfile.mkdtemp(), datetime.datetime.now().strftime("%Y%m%d-%H%M%S"))
train_writer = tf.summary.create_file_writer(os.path.join(root, "train"))
test_writer = tf.summary.create_file_writer(os.path.join(root, "test"))

EPOCHS = 4
for epoch in range(EPOCHS):
    for x, y in train_dataset:
        train_step(x, y)
    with train_writer.as_default():
        tf.summary.scalar("loss", train_loss.result(), step=epoch)
        tf.summary.scalar("accuracy", train_accuracy.result(), step=epoch)
        for variable in model.trainable_variables:
            tf.summary.histogram(variable.name, variable, step=epoch)
    for x, y in test_dataset:
        test_step(x, y)
    with test_writer.as_default(step=epoch):
        tf.summary.scalar("loss", test_loss.result())
        tf.summary.scalar("accuracy", test_accuracy.result())
    print(f"Epoch {epoch + 1}, loss {float(train_loss.result()):.3f}, {float(test_accuracy.result()):.3f}")
    if epoch < EPOCHS - 1:
        for metric in (train_loss, train_accuracy, test_loss, test_accuracy):
            metric.reset_state()
with train_writer.as_default(), tf.summary.record_if(True):
    tf.summary.text("about", "Three clouds of points.", step=0)
    tf.summary.image("first points", np.reshape(points[:4] / 12 + 0.5, (4, 2, 3, 1)), step=0)
train_writer.flush()
test_writer.close()


def curve(folder, tag):
    (name,) = os.listdir(folder)
    events = tf.compat.v1.train.summary_iterator(os.path.join(folder, name))
    return [v.simple_value for event in events for v in event.summary.value if v.tag == tag]


losses = curve(os.path.join(root, "train"), "loss")
assert len(losses) == EPOCHS
assert losses[-1] < losses[0] / 2
assert curve(os.path.join(root, "test"), "accuracy")[-1] > 0.9
print("ok")
