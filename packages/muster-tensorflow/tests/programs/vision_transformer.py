"""A small vision transformer on digits: patches by ``tf.image.extract_patches``, in a functional model."""

import numpy as np
from sklearn.datasets import load_digits

import muster_tensorflow as tf
from muster_tensorflow import keras
from muster_tensorflow.keras import layers

IMAGE_SIZE, PATCH_SIZE, PROJECTION_DIM, HEADS = 8, 2, 16, 2
NUM_PATCHES = (IMAGE_SIZE // PATCH_SIZE) ** 2


class Patches(layers.Layer):
    def __init__(self, patch_size):
        super().__init__()
        self.patch_size = patch_size

    def call(self, images):
        batch_size = tf.shape(images)[0]
        patches = tf.image.extract_patches(
            images=images,
            sizes=[1, self.patch_size, self.patch_size, 1],
            strides=[1, self.patch_size, self.patch_size, 1],
            rates=[1, 1, 1, 1],
            padding="VALID",
        )
        return tf.reshape(patches, [batch_size, -1, patches.shape[-1]])


class PatchEncoder(layers.Layer):
    def __init__(self, num_patches, projection_dim):
        super().__init__()
        self.num_patches = num_patches
        self.projection = layers.Dense(units=projection_dim)
        self.position_embedding = layers.Embedding(input_dim=num_patches, output_dim=projection_dim)

    def call(self, patch):
        positions = tf.range(start=0, limit=self.num_patches, delta=1)
        return self.projection(patch) + self.position_embedding(positions)


def mlp(x, hidden_units):
    for units in hidden_units:
        x = layers.Dense(units, activation=tf.nn.gelu)(x)
    return x


def build_model():
    inputs = layers.Input(shape=(IMAGE_SIZE, IMAGE_SIZE, 1))
    encoded = PatchEncoder(NUM_PATCHES, PROJECTION_DIM)(Patches(PATCH_SIZE)(inputs))
    for _ in range(1):
        x1 = layers.LayerNormalization(epsilon=1e-6)(encoded)
        attended = layers.MultiHeadAttention(num_heads=HEADS, key_dim=PROJECTION_DIM)(x1, x1)
        x2 = attended + encoded
        x3 = mlp(layers.LayerNormalization(epsilon=1e-6)(x2), [PROJECTION_DIM * 2, PROJECTION_DIM])
        encoded = layers.Add()([x3, x2])
    representation = tf.reduce_mean(layers.LayerNormalization(epsilon=1e-6)(encoded), axis=1)
    features = tf.nn.relu(layers.Dense(32)(representation))
    return keras.Model(inputs=inputs, outputs=layers.Dense(10)(features))


def main():
    keras.utils.set_random_seed(1)
    data = load_digits()
    images = (data.images[..., None] / 16.0).astype("float32")
    model = build_model()
    model.compile(
        optimizer=keras.optimizers.Adam(0.005),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
    )
    model.fit(images[:1200], data.target[:1200], batch_size=64, epochs=10, verbose=2)
    _, accuracy = model.evaluate(images[1200:], data.target[1200:], verbose=0)
    assert accuracy > 0.6, accuracy
    assert np.argmax(model.predict(images[:4], verbose=0), 1).shape == (4,)
    print("ok")


if __name__ == "__main__":
    main()
