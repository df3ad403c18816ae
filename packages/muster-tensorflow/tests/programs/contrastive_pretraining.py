"""Contrastive pretraining and a linear probe at once: three datasets in one, two optimizers, a temperature.

A batch holds unlabeled rows and labeled ones. The encoder learns from two augmented views of all rows; the
probe learns classes from features of the labeled ones.
"""

import numpy as np

import muster_tensorflow as tf
from muster_tensorflow import keras
from muster_tensorflow.keras import layers

WIDTH, CLASSES = 12, 4
UNLABELED_BATCH, LABELED_BATCH = 48, 16


def make_rows(count, seed):
    """Rows about one of four centers, and its number."""
    centers = np.random.default_rng(0).normal(size=(CLASSES, WIDTH))
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    return (centers[labels] + 0.4 * rng.normal(size=(count, WIDTH))).astype("float32"), labels


def prepare_dataset():
    unlabeled, _ = make_rows(480, 1)
    labeled = make_rows(160, 2)
    unlabeled_dataset = tf.data.Dataset.from_tensor_slices(unlabeled).shuffle(480).batch(UNLABELED_BATCH)
    labeled_dataset = tf.data.Dataset.from_tensor_slices(labeled).shuffle(160).batch(LABELED_BATCH)
    test_dataset = tf.data.Dataset.from_tensor_slices(make_rows(100, 3)).batch(32)
    return tf.data.Dataset.zip((unlabeled_dataset, labeled_dataset)).prefetch(2), test_dataset


class ContrastiveModel(keras.Model):
    def __init__(self):
        super().__init__()
        self.temperature = 0.2
        self.augmenter = keras.Sequential(
            [keras.Input((WIDTH,)), layers.GaussianNoise(0.3), layers.Dropout(0.1)], name="augmenter"
        )
        self.encoder = keras.Sequential(
            [keras.Input((WIDTH,)), layers.Dense(32, activation="relu"), layers.Dense(16)], name="encoder"
        )
        self.projection_head = keras.Sequential(
            [keras.Input((16,)), layers.Dense(16, activation="relu"), layers.Dense(8)], name="head"
        )
        self.linear_probe = keras.Sequential([layers.Input((16,)), layers.Dense(CLASSES)], name="probe")

    def compile(self, contrastive_optimizer, probe_optimizer, **kwargs):
        super().compile(**kwargs)
        self.contrastive_optimizer = contrastive_optimizer
        self.probe_optimizer = probe_optimizer
        self.probe_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.contrastive_loss_tracker = keras.metrics.Mean(name="c_loss")
        self.contrastive_accuracy = keras.metrics.SparseCategoricalAccuracy(name="c_acc")
        self.probe_loss_tracker = keras.metrics.Mean(name="p_loss")
        self.probe_accuracy = keras.metrics.SparseCategoricalAccuracy(name="p_acc")

    @property
    def metrics(self):
        return [
            self.contrastive_loss_tracker,
            self.contrastive_accuracy,
            self.probe_loss_tracker,
            self.probe_accuracy,
        ]

    def contrastive_loss(self, projections_1, projections_2):
        projections_1 = tf.math.l2_normalize(projections_1, axis=1)
        projections_2 = tf.math.l2_normalize(projections_2, axis=1)
        similarities = tf.matmul(projections_1, projections_2, transpose_b=True) / self.temperature
        contrastive_labels = tf.range(tf.shape(projections_1)[0])
        self.contrastive_accuracy.update_state(contrastive_labels, similarities)
        self.contrastive_accuracy.update_state(contrastive_labels, tf.transpose(similarities))
        both = [
            keras.losses.sparse_categorical_crossentropy(contrastive_labels, each, from_logits=True)
            for each in (similarities, tf.transpose(similarities))
        ]
        return tf.reduce_mean(both[0] + both[1]) / 2

    def train_step(self, data):
        unlabeled_rows, (labeled_rows, labels) = data
        rows = tf.concat((unlabeled_rows, labeled_rows), axis=0)
        view_1 = self.augmenter(rows, training=True)
        view_2 = self.augmenter(rows, training=True)
        with tf.GradientTape() as tape:
            features_1 = self.encoder(view_1, training=True)
            features_2 = self.encoder(view_2, training=True)
            loss = self.contrastive_loss(
                self.projection_head(features_1, training=True),
                self.projection_head(features_2, training=True),
            )
        weights = self.encoder.trainable_weights + self.projection_head.trainable_weights
        self.contrastive_optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        self.contrastive_loss_tracker.update_state(loss)

        # The probe sees features as constants.
        features = self.encoder(self.augmenter(labeled_rows, training=True), training=False)
        with tf.GradientTape() as tape:
            class_logits = self.linear_probe(features, training=True)
            probe_loss = self.probe_loss(labels, class_logits)
        weights = self.linear_probe.trainable_weights
        self.probe_optimizer.apply_gradients(zip(tape.gradient(probe_loss, weights), weights, strict=True))
        self.probe_loss_tracker.update_state(probe_loss)
        self.probe_accuracy.update_state(labels, class_logits)
        return {m.name: m.result() for m in self.metrics}

    def test_step(self, data):
        labeled_rows, labels = data
        class_logits = self.linear_probe(self.encoder(labeled_rows, training=False), training=False)
        self.probe_loss_tracker.update_state(self.probe_loss(labels, class_logits))
        self.probe_accuracy.update_state(labels, class_logits)
        # Only the probe is evaluated.
        return {m.name: m.result() for m in self.metrics[2:]}


def main():
    keras.utils.set_random_seed(4)
    train_dataset, test_dataset = prepare_dataset()
    model = ContrastiveModel()
    model.compile(
        contrastive_optimizer=keras.optimizers.Adam(0.003), probe_optimizer=keras.optimizers.Adam(0.01)
    )
    history = model.fit(train_dataset, epochs=8, validation_data=test_dataset, verbose=2).history
    assert history["c_loss"][-1] < history["c_loss"][0]
    assert history["val_p_acc"][-1] > 0.9, history
    assert sorted(history) == ["c_acc", "c_loss", "p_acc", "p_loss", "val_p_acc", "val_p_loss"]
    print("ok")


if __name__ == "__main__":
    main()
