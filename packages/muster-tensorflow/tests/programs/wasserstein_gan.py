"""A Wasserstein GAN with a gradient penalty: a tape inside of a tape, in a model's own train_step."""

import numpy as np

import muster_tensorflow as tf
from muster_tensorflow import keras
from muster_tensorflow.keras import layers

LATENT_DIM, BATCH_SIZE = 4, 64


def rings(count=640):
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, count)
    points = np.stack([np.cos(angle), np.sin(angle)], 1) * 2 + rng.normal(0, 0.05, (count, 2))
    return points.astype("float32")


class WGAN(keras.Model):
    def __init__(self, discriminator, generator, latent_dim, discriminator_extra_steps=2, gp_weight=10.0):
        super().__init__()
        self.discriminator = discriminator
        self.generator = generator
        self.latent_dim = latent_dim
        self.d_steps = discriminator_extra_steps
        self.gp_weight = gp_weight

    def compile(self, d_optimizer, g_optimizer, d_loss_fn, g_loss_fn):
        super().compile()
        self.d_optimizer = d_optimizer
        self.g_optimizer = g_optimizer
        self.d_loss_fn = d_loss_fn
        self.g_loss_fn = g_loss_fn

    def gradient_penalty(self, batch_size, real_points, fake_points):
        alpha = tf.random.uniform([batch_size, 1], 0.0, 1.0)
        interpolated = real_points + alpha * (fake_points - real_points)
        with tf.GradientTape() as gp_tape:
            gp_tape.watch(interpolated)
            pred = self.discriminator(interpolated, training=True)
        grads = gp_tape.gradient(pred, [interpolated])[0]
        norm = tf.sqrt(tf.reduce_sum(tf.square(grads), axis=[1]) + 1e-12)
        return tf.reduce_mean((norm - 1.0) ** 2)

    def train_step(self, real_points):
        if isinstance(real_points, tuple):
            real_points = real_points[0]
        batch_size = tf.shape(real_points)[0]
        for _ in range(self.d_steps):
            noise = tf.random.normal(shape=(batch_size, self.latent_dim))
            with tf.GradientTape() as tape:
                fake_points = self.generator(noise, training=True)
                fake_logits = self.discriminator(fake_points, training=True)
                real_logits = self.discriminator(real_points, training=True)
                d_cost = self.d_loss_fn(real_img=real_logits, fake_img=fake_logits)
                gp = self.gradient_penalty(batch_size, real_points, fake_points)
                d_loss = d_cost + gp * self.gp_weight
            d_gradient = tape.gradient(d_loss, self.discriminator.trainable_variables)
            self.d_optimizer.apply_gradients(
                zip(d_gradient, self.discriminator.trainable_variables, strict=True)
            )

        noise = tf.random.normal(shape=(batch_size, self.latent_dim))
        with tf.GradientTape() as tape:
            gen_logits = self.discriminator(self.generator(noise, training=True), training=True)
            g_loss = self.g_loss_fn(gen_logits)
        gen_gradient = tape.gradient(g_loss, self.generator.trainable_variables)
        self.g_optimizer.apply_gradients(zip(gen_gradient, self.generator.trainable_variables, strict=True))
        return {"d_loss": d_loss, "g_loss": g_loss, "penalty": gp}


def main():
    keras.utils.set_random_seed(4)
    generator = keras.Sequential(
        [keras.Input((LATENT_DIM,)), layers.Dense(32, "relu"), layers.Dense(32, "relu"), layers.Dense(2)]
    )
    discriminator = keras.Sequential(
        [
            keras.Input((2,)),
            layers.Dense(32),
            layers.LeakyReLU(0.2),
            layers.Dense(32, "relu"),
            layers.Dense(1),
        ]
    )
    wgan = WGAN(discriminator, generator, LATENT_DIM)
    wgan.compile(
        d_optimizer=keras.optimizers.Adam(0.002, beta_1=0.5, beta_2=0.9),
        g_optimizer=keras.optimizers.Adam(0.002, beta_1=0.5, beta_2=0.9),
        d_loss_fn=lambda real_img, fake_img: tf.reduce_mean(fake_img) - tf.reduce_mean(real_img),
        g_loss_fn=lambda fake_img: -tf.reduce_mean(fake_img),
    )
    dataset = tf.data.Dataset.from_tensor_slices(rings()).shuffle(640, seed=1).batch(BATCH_SIZE)
    history = wgan.fit(dataset, epochs=20, verbose=2).history
    assert history["penalty"][-1] < history["penalty"][0] / 2, history["penalty"]
    points = np.asarray(generator(tf.random.normal((500, LATENT_DIM))))
    assert np.isfinite(points).all()
    assert points.std() > 0.1, points.std()
    print("ok")


if __name__ == "__main__":
    main()
