"""Denoising diffusion with an exponential moving average of the network, in a model's own train_step."""

import math

import numpy as np

import muster_tensorflow as tf
from muster_tensorflow import keras
from muster_tensorflow.keras import layers

EMBEDDING_DIMS, EMA = 8, 0.95


@keras.saving.register_keras_serializable()
def sinusoidal_embedding(x):
    frequencies = tf.exp(tf.linspace(tf.math.log(1.0), tf.math.log(100.0), EMBEDDING_DIMS // 2))
    angular_speeds = 2.0 * math.pi * frequencies
    return tf.concat([tf.sin(angular_speeds * x), tf.cos(angular_speeds * x)], axis=-1)


def get_network():
    noisy = keras.Input((2,))
    noise_variances = keras.Input((1,))
    embedding = layers.Lambda(sinusoidal_embedding)(noise_variances)
    x = layers.Concatenate()([noisy, embedding])
    for width in (64, 64):
        x = layers.Dense(width, activation=keras.activations.swish)(x)
    return keras.Model([noisy, noise_variances], layers.Dense(2)(x), name="network")


class DiffusionModel(keras.Model):
    def __init__(self):
        super().__init__()
        self.normalizer = layers.Normalization()
        self.network = get_network()
        self.ema_network = keras.models.clone_model(self.network)
        self.ema_network.set_weights(self.network.get_weights())

    def compile(self, **kwargs):
        super().compile(**kwargs)
        self.noise_loss_tracker = keras.metrics.Mean(name="n_loss")

    @property
    def metrics(self):
        return [self.noise_loss_tracker]

    def diffusion_schedule(self, times):
        start_angle, end_angle = tf.acos(0.95), tf.acos(0.05)
        angles = start_angle + times * (end_angle - start_angle)
        return tf.sin(angles), tf.cos(angles)

    def denoise(self, noisy, noise_rates, signal_rates, training):
        network = self.network if training else self.ema_network
        noises = network([noisy, noise_rates**2], training=training)
        return noises, (noisy - noise_rates * noises) / signal_rates

    def generate(self, count, steps):
        now = tf.random.normal(shape=(count, 2))
        step_size = 1.0 / steps
        for step in range(steps):
            times = tf.ones((count, 1)) - step * step_size
            noise_rates, signal_rates = self.diffusion_schedule(times)
            noises, points = self.denoise(now, noise_rates, signal_rates, training=False)
            next_noise_rates, next_signal_rates = self.diffusion_schedule(times - step_size)
            now = next_signal_rates * points + next_noise_rates * noises
        return self.normalizer.mean + points * self.normalizer.variance**0.5

    def train_step(self, points):
        points = self.normalizer(points, training=True)
        batch = tf.shape(points)[0]
        noises = tf.random.normal(shape=(batch, 2))
        times = tf.random.uniform(shape=(batch, 1), minval=0.0, maxval=1.0)
        noise_rates, signal_rates = self.diffusion_schedule(times)
        noisy = signal_rates * points + noise_rates * noises
        with tf.GradientTape() as tape:
            predicted, _ = self.denoise(noisy, noise_rates, signal_rates, training=True)
            noise_loss = self.loss(noises, predicted)
        gradients = tape.gradient(noise_loss, self.network.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.network.trainable_weights, strict=True))
        self.noise_loss_tracker.update_state(noise_loss)
        for weight, ema_weight in zip(self.network.weights, self.ema_network.weights, strict=True):
            ema_weight.assign(EMA * ema_weight + (1 - EMA) * weight)
        return {m.name: m.result() for m in self.metrics}


def main():
    keras.utils.set_random_seed(9)
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 1024)
    points = (np.stack([3 * np.cos(angle), np.sin(angle)], 1) + 5).astype("float32")
    model = DiffusionModel()
    model.normalizer.adapt(points)
    model.compile(optimizer=keras.optimizers.AdamW(0.003), loss=keras.losses.MeanSquaredError())
    dataset = tf.data.Dataset.from_tensor_slices(points).shuffle(1024, seed=2).batch(128)
    history = model.fit(dataset, epochs=60, verbose=0).history["n_loss"]
    assert history[-1] < history[0] * 0.8, history
    made = np.asarray(model.generate(256, 10))
    np.testing.assert_allclose(made.mean(0), points.mean(0), atol=0.6)
    np.testing.assert_allclose(made.std(0), points.std(0), rtol=0.4)
    one, other = model.network.get_weights()[0], model.ema_network.get_weights()[0]
    assert 0 < np.abs(one - other).max() < 1
    print("ok")


if __name__ == "__main__":
    main()
