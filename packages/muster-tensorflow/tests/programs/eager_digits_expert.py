"""Train a subclassed model of handwritten digits by its own steps, first eager, then compiled."""

import numpy as np
from sklearn.datasets import load_digits

import muster_tensorflow as tf
from muster_tensorflow.keras import Model
from muster_tensorflow.keras.layers import BatchNormalization, Conv2D, Dense, Dropout, Flatten

tf.keras.utils.set_random_seed(0)
images, labels = load_digits(return_X_y=True)
images = (images.reshape(-1, 8, 8) / 16.0)[..., tf.newaxis].astype("float32")
train_ds = tf.data.Dataset.from_tensor_slices((images[:1500], labels[:1500])).shuffle(1500).batch(100)
test_ds = tf.data.Dataset.from_tensor_slices((images[1500:], labels[1500:])).batch(100)


class Digits(Model):
    def __init__(self):
        super().__init__()
        self.conv1 = Conv2D(8, 3, activation="relu")
        self.norm = BatchNormalization()
        self.flatten = Flatten()
        self.d1 = Dense(32, activation="relu")
        self.dropout = Dropout(0.1)
        self.d2 = Dense(10)

    def call(self, x, training=False):
        x = self.norm(self.conv1(x), training=training)
        x = self.dropout(self.d1(self.flatten(x)), training=training)
        return self.d2(x)


model = Digits()
loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.Adam(3e-3)
train_loss = tf.keras.metrics.Mean(name="train_loss")
train_accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="train_accuracy")
test_accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="test_accuracy")


def train_step(images, labels):
    with tf.GradientTape() as tape:
        predictions = model(images, training=True)
        loss = loss_object(labels, predictions)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    train_loss(loss)
    train_accuracy(labels, predictions)
    return loss


def test_step(images, labels):
    test_accuracy(labels, model(images, training=False))


step = train_step
accuracies = []
for epoch in range(4):
    if epoch == 1:
        step = tf.function(train_step)
    for metric in (train_loss, train_accuracy, test_accuracy):
        metric.reset_state()
    for x, y in train_ds:
        last = step(x, y)
    for x, y in test_ds:
        test_step(x, y)
    accuracies.append(test_accuracy.result().numpy())
    print(
        f"Epoch {epoch + 1}, {'eager' if epoch == 0 else 'compiled'}, Loss: {train_loss.result():0.3f}, "
        f"Accuracy: {train_accuracy.result() * 100:0.1f}, Test Accuracy: {test_accuracy.result() * 100:0.1f}"
    )
    if epoch == 0:
        moving = model.norm.moving_mean.numpy()
        assert np.abs(moving).max() > 0  # batch normalization has moved its averages

assert optimizer.iterations.numpy() == 4 * 15
assert np.isfinite(last.numpy())
assert accuracies[-1] > 0.8
assert accuracies[-1] > accuracies[0]
print("ok")
