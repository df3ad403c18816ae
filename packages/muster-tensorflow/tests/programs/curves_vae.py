"""A variational autoencoder of curves: a sampling layer, three trackers, and a loss of its own."""

import math

import numpy as np

import muster_tensorflow as tf
from muster_tensorflow import keras
from muster_tensorflow.keras import layers

latent_dim = 2
points = 24


class Sampling(layers.Layer):
    """Uses (z_mean, z_log_var) to sample z."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(1337)

    def call(self, inputs):
        z_mean, z_log_var = inputs
        batch, dim = tf.shape(z_mean)[0], tf.shape(z_mean)[1]
        epsilon = keras.random.normal(shape=(batch, dim), seed=self.seed_generator)
        return z_mean + tf.exp(0.5 * z_log_var) * epsilon


def build_encoder():
    inputs = keras.Input(shape=(points,))
    x = layers.Dense(32, activation="relu")(inputs)
    z_mean = layers.Dense(latent_dim, name="z_mean")(x)
    z_log_var = layers.Dense(latent_dim, name="z_log_var")(x)
    return keras.Model(inputs, [z_mean, z_log_var, Sampling()([z_mean, z_log_var])], name="encoder")


def build_decoder():
    latent_inputs = keras.Input(shape=(latent_dim,))
    x = layers.Dense(32, activation="relu")(latent_inputs)
    return keras.Model(latent_inputs, layers.Dense(points)(x), name="decoder")


class VAE(keras.Model):
    def __init__(self, encoder, decoder, **kwargs):
        super().__init__(**kwargs)
        self.encoder = encoder
        self.decoder = decoder
        self.total_loss_tracker = keras.metrics.Mean(name="total_loss")
        self.reconstruction_loss_tracker = keras.metrics.Mean(name="reconstruction_loss")
        self.kl_loss_tracker = keras.metrics.Mean(name="kl_loss")

    @property
    def metrics(self):
        return [self.total_loss_tracker, self.reconstruction_loss_tracker, self.kl_loss_tracker]

    def losses_of(self, data):
        z_mean, z_log_var, z = self.encoder(data)
        reconstruction = self.decoder(z)
        reconstruction_loss = tf.reduce_mean(tf.reduce_sum(tf.square(data - reconstruction), axis=1))
        kl_loss = -0.5 * (1 + z_log_var - tf.square(z_mean) - tf.exp(z_log_var))
        kl_loss = tf.reduce_mean(tf.reduce_sum(kl_loss, axis=1))
        return reconstruction_loss + 0.1 * kl_loss, reconstruction_loss, kl_loss

    def track(self, losses):
        for metric, loss in zip(self.metrics, losses, strict=True):
            metric.update_state(loss)
        return {m.name: m.result() for m in self.metrics}

    @tf.function
    def train_step(self, data):
        with tf.GradientTape() as tape:
            losses = self.losses_of(data)
        grads = tape.gradient(losses[0], self.trainable_weights)
        self.optimizer.apply_gradients(zip(grads, self.trainable_weights, strict=True))
        return self.track(losses)

    @tf.function
    def test_step(self, data):
        return self.track(self.losses_of(data))


def curves(count):
    rng = np.random.default_rng(1)
    phases, heights = rng.uniform(0, math.pi, (count, 1)), rng.uniform(0.5, 1.5, (count, 1))
    return (heights * np.sin(np.linspace(0, 2 * math.pi, points) + phases)).astype("float32")


def main():
    keras.utils.set_random_seed(2)
    data = curves(640)
    vae = VAE(build_encoder(), build_decoder())
    vae.compile(optimizer=keras.optimizers.Adam(0.005))
    history = vae.fit(data, epochs=8, batch_size=64, validation_split=0.1, verbose=2).history
    names = ["total_loss", "reconstruction_loss", "kl_loss"]
    assert sorted(history) == sorted([*names, *(f"val_{name}" for name in names)])
    assert history["val_total_loss"][-1] < 0.7 * history["val_total_loss"][0], history
    evaluated = vae.evaluate(data[-64:], verbose=0, return_dict=True)
    assert abs(evaluated["total_loss"] - history["val_total_loss"][-1]) < 0.5
    assert vae.decoder.predict(np.zeros((3, latent_dim), "float32"), verbose=0).shape == (3, points)
    print("ok")


if __name__ == "__main__":
    main()
