"""A siamese network with a triplet loss: a layer of distances, a model with its own steps and tracker."""

import numpy as np
from sklearn.datasets import load_digits

import muster_tensorflow as tf
from muster_tensorflow import keras
from muster_tensorflow.keras import layers


def preprocess_triplets(anchor, positive, negative):
    return tuple(tf.cast(each, tf.float32) / 16.0 for each in (anchor, positive, negative))


def triplets(images, labels, count=768):
    rng = np.random.default_rng(0)
    by_label = [np.flatnonzero(labels == label) for label in range(10)]
    rows = []
    for _ in range(count):
        same, other = rng.choice(10, 2, replace=False)
        rows.append((*rng.choice(by_label[same], 2, replace=False), rng.choice(by_label[other])))
    anchor, positive, negative = (images[list(each)] for each in zip(*rows, strict=True))
    dataset = tf.data.Dataset.zip(
        tuple(tf.data.Dataset.from_tensor_slices(each) for each in (anchor, positive, negative))
    )
    return dataset.shuffle(1024, seed=1).map(preprocess_triplets)


class DistanceLayer(layers.Layer):
    """Computes the distances from the anchor to the positive and to the negative."""

    def call(self, anchor, positive, negative):
        ap_distance = tf.reduce_sum(tf.square(anchor - positive), -1)
        an_distance = tf.reduce_sum(tf.square(anchor - negative), -1)
        return (ap_distance, an_distance)


class SiameseModel(keras.Model):
    def __init__(self, siamese_network, margin=0.5):
        super().__init__()
        self.siamese_network = siamese_network
        self.margin = margin
        self.loss_tracker = keras.metrics.Mean(name="loss")

    def call(self, inputs):
        return self.siamese_network(inputs)

    def train_step(self, data):
        with tf.GradientTape() as tape:
            loss = self._compute_triplet_loss(data)
        gradients = tape.gradient(loss, self.siamese_network.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.siamese_network.trainable_weights, strict=True))
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}

    def test_step(self, data):
        self.loss_tracker.update_state(self._compute_triplet_loss(data))
        return {"loss": self.loss_tracker.result()}

    def _compute_triplet_loss(self, data):
        ap_distance, an_distance = self.siamese_network(data)
        return tf.maximum(ap_distance - an_distance + self.margin, 0.0)

    @property
    def metrics(self):
        return [self.loss_tracker]


def main():
    keras.utils.set_random_seed(2)
    data = load_digits()
    dataset = triplets(data.images[..., None].astype("float32"), data.target)
    train = dataset.take(640).batch(32, drop_remainder=False).prefetch(8)
    validation = dataset.skip(640).batch(32)

    inputs = layers.Input((8, 8, 1))
    x = layers.Conv2D(16, 3, activation="relu")(inputs)
    x = layers.Flatten()(x)
    x = layers.BatchNormalization()(layers.Dense(32, activation="relu")(x))
    embedding = keras.Model(inputs, tf.math.l2_normalize(layers.Dense(8)(x), axis=1), name="embedding")

    names = ("anchor", "positive", "negative")
    given = [layers.Input(name=name, shape=(8, 8, 1)) for name in names]
    distances = DistanceLayer()(*(embedding(each) for each in given))
    model = SiameseModel(keras.Model(inputs=given, outputs=distances))
    model.compile(optimizer=keras.optimizers.Adam(0.003))
    history = model.fit(train, epochs=5, validation_data=validation, verbose=2).history
    assert history["loss"][-1] < history["loss"][0] / 2, history
    assert history["val_loss"][-1] < 0.45, history

    anchor, positive, negative = next(iter(train))
    cosine = keras.losses.cosine_similarity
    near = -np.mean(cosine(embedding(anchor), embedding(positive)))
    far = -np.mean(cosine(embedding(anchor), embedding(negative)))
    assert near > far, (near, far)
    print("ok")


if __name__ == "__main__":
    main()
