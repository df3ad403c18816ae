"""A generator and a discriminator of small images, trained by `fit` under MirroredStrategy."""

import numpy as np

import muster_tensorflow as tf
from muster_tensorflow import keras

LATENT_DIM = 16
BATCH_SIZE = 32


def images(count=512):
    """Images of 8 by 8 with a bright square somewhere."""
    rng = np.random.default_rng(0)
    pictures = rng.normal(0.0, 0.05, (count, 8, 8, 1)).astype("float32")
    for picture, (row, column) in zip(pictures, rng.integers(0, 5, (count, 2)), strict=True):
        picture[row : row + 4, column : column + 4] += 1.0
    return pictures


def build_generator():
    return keras.Sequential(
        [
            keras.Input(shape=(LATENT_DIM,)),
            keras.layers.Dense(4 * 4 * 8),
            keras.layers.BatchNormalization(),
            keras.layers.LeakyReLU(0.2),
            keras.layers.Reshape((4, 4, 8)),
            keras.layers.Conv2DTranspose(8, 4, strides=2, padding="same", activation="relu"),
            keras.layers.Conv2D(1, 3, padding="same"),
        ],
        name="generator",
    )


def build_discriminator():
    return keras.Sequential(
        [
            keras.Input(shape=(8, 8, 1)),
            keras.layers.Conv2D(8, 3, strides=2, padding="same"),
            keras.layers.LeakyReLU(0.2),
            keras.layers.Dropout(0.2),
            keras.layers.Flatten(),
            keras.layers.Dense(1),
        ],
        name="discriminator",
    )


class GAN(keras.Model):
    def __init__(self, discriminator, generator, latent_dim):
        super().__init__()
        self.discriminator = discriminator
        self.generator = generator
        self.latent_dim = latent_dim

    def compile(self, d_optimizer, g_optimizer, loss_fn):
        super().compile()
        self.d_optimizer = d_optimizer
        self.g_optimizer = g_optimizer
        self.loss_fn = loss_fn
        self.d_loss_metric = keras.metrics.Mean(name="d_loss")
        self.g_loss_metric = keras.metrics.Mean(name="g_loss")

    @property
    def metrics(self):
        return [self.d_loss_metric, self.g_loss_metric]

    def train_step(self, real_images):
        if isinstance(real_images, tuple):
            real_images = real_images[0]
        batch_size = tf.shape(real_images)[0]

        # The discriminator tells real images (0) from generated ones (1).
        noise = tf.random.normal(shape=(batch_size, self.latent_dim))
        combined_images = tf.concat([self.generator(noise), real_images], axis=0)
        labels = tf.concat([tf.ones((batch_size, 1)), tf.zeros((batch_size, 1))], axis=0)
        labels += 0.05 * tf.random.uniform(tf.shape(labels))
        with tf.GradientTape() as tape:
            predictions = self.discriminator(combined_images, training=True)
            d_loss = self.loss_fn(labels, predictions)
        grads = tape.gradient(d_loss, self.discriminator.trainable_weights)
        self.d_optimizer.apply_gradients(zip(grads, self.discriminator.trainable_weights, strict=True))

        # The generator learns to be taken for real.
        noise = tf.random.normal(shape=(batch_size, self.latent_dim))
        misleading_labels = tf.zeros((batch_size, 1))
        with tf.GradientTape() as tape:
            predictions = self.discriminator(self.generator(noise, training=True))
            g_loss = self.loss_fn(misleading_labels, predictions)
        grads = tape.gradient(g_loss, self.generator.trainable_weights)
        self.g_optimizer.apply_gradients(zip(grads, self.generator.trainable_weights, strict=True))

        self.d_loss_metric.update_state(d_loss)
        self.g_loss_metric.update_state(g_loss)
        return {"d_loss": self.d_loss_metric.result(), "g_loss": self.g_loss_metric.result()}


class GANMonitor(keras.callbacks.Callback):
    """Looks at generated images at the end of each epoch."""

    def __init__(self, num_img=3, latent_dim=LATENT_DIM):
        super().__init__()
        self.num_img = num_img
        self.latent_dim = latent_dim
        self.brightness = []

    def on_epoch_end(self, epoch, logs=None):
        noise = tf.random.normal(shape=(self.num_img, self.latent_dim))
        self.brightness.append(float(tf.reduce_mean(self.model.generator(noise))))


def main():
    keras.utils.set_random_seed(3)
    strategy = tf.distribute.MirroredStrategy()
    dataset = tf.data.Dataset.from_tensor_slices(images())
    dataset = dataset.shuffle(buffer_size=512).batch(BATCH_SIZE).prefetch(tf.data.AUTOTUNE)
    with strategy.scope():
        gan = GAN(build_discriminator(), build_generator(), LATENT_DIM)
        gan.compile(
            d_optimizer=keras.optimizers.Adam(learning_rate=0.001),
            g_optimizer=keras.optimizers.Adam(learning_rate=0.002),
            loss_fn=keras.losses.BinaryCrossentropy(from_logits=True),
        )
    monitor = GANMonitor()
    history = gan.fit(dataset, epochs=6, callbacks=[monitor], verbose=2).history
    assert list(history) == ["d_loss", "g_loss"]
    assert all(0.1 < loss < 3.0 for losses in history.values() for loss in losses), history
    assert len(monitor.brightness) == 6
    assert all(abs(each) < 2.0 for each in monitor.brightness), monitor.brightness
    assert int(gan.d_optimizer.iterations) == int(gan.g_optimizer.iterations) == 6 * 16
    print("ok")


if __name__ == "__main__":
    main()
