"""TensorBoard beside fit: histograms of weights, a schedule of the learning rate, pictures of confusions."""

import os
import tempfile

import numpy as np
from sklearn.datasets import load_digits

import muster_tensorflow as tf
from muster_tensorflow import keras

tf.keras.utils.set_random_seed(7)

digits = load_digits()
images = (digits.images / 16.0).astype("float32")[..., np.newaxis]
labels = digits.target
train_images, test_images = images[:1400], images[1400:]
train_labels, test_labels = labels[:1400], labels[1400:]

logdir = tempfile.mkdtemp()
file_writer = tf.summary.create_file_writer(logdir + "/metrics")
file_writer.set_as_default()
file_writer_cm = tf.summary.create_file_writer(logdir + "/cm")

with file_writer.as_default():
    tf.summary.image("25 training examples", train_images[:25], max_outputs=25, step=0)

model = keras.models.Sequential(
    [
        keras.layers.Input((8, 8, 1)),
        keras.layers.Flatten(),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])


def lr_schedule(epoch):
    learning_rate = 0.02 if epoch < 3 else 0.002
    tf.summary.scalar("learning rate", data=learning_rate, step=epoch)
    return learning_rate


def confusion_image(matrix):
    """Draw a matrix as a grey picture of 8 pixels a cell."""
    shades = 1.0 - matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    return np.kron(shades, np.ones((8, 8)))[np.newaxis, :, :, np.newaxis]


def log_confusion_matrix(epoch, logs):
    predicted = np.argmax(model.predict(test_images, verbose=0), axis=1)
    matrix = np.asarray(tf.math.confusion_matrix(test_labels, predicted, 10))
    with file_writer_cm.as_default():
        tf.summary.image("epoch_confusion_matrix", confusion_image(matrix), step=epoch)


class RateTensorBoard(keras.callbacks.TensorBoard):
    """Adds the learning rate to the metrics, as programs of Keras 2 do."""

    def on_epoch_end(self, epoch, logs=None):
        logs = dict(logs or {})
        logs["rate"] = float(np.asarray(self.model.optimizer.learning_rate))
        super().on_epoch_end(epoch, logs)


model.fit(
    train_images,
    train_labels,
    batch_size=64,
    epochs=5,
    verbose=0,
    validation_data=(test_images, test_labels),
    callbacks=[
        keras.callbacks.LearningRateScheduler(lr_schedule),
        RateTensorBoard(log_dir=logdir + "/fit", histogram_freq=1, write_images=True),
        keras.callbacks.LambdaCallback(on_epoch_end=log_confusion_matrix),
    ],
)
file_writer.close()
file_writer_cm.close()


def read(folder):
    for name in sorted(os.listdir(folder)):
        for event in tf.compat.v1.train.summary_iterator(os.path.join(folder, name)):
            for value in event.summary.value:
                yield event.step, value.tag, value


rates = [
    (step, round(v.simple_value, 4)) for step, tag, v in read(logdir + "/metrics") if tag == "learning rate"
]
assert rates == [(0, 0.02), (1, 0.02), (2, 0.02), (3, 0.002), (4, 0.002)]
tags = {tag for _, tag, _ in read(logdir + "/fit/train")}
assert {"epoch_loss", "epoch_accuracy", "epoch_rate"} <= tags
assert any(tag.endswith("kernel/histogram") for tag in tags)
assert any(tag.endswith("kernel/image") for tag in tags)
accuracies = [v.simple_value for _, tag, v in read(logdir + "/fit/validation") if tag == "epoch_accuracy"]
assert accuracies[-1] > 0.85, accuracies
pictures = [value.tensor.string_val for _, _, value in read(logdir + "/cm")]
assert len(pictures) == 5
assert pictures[0][0] == b"80"
assert pictures[0][2].startswith(b"\x89PNG")
print("ok")
