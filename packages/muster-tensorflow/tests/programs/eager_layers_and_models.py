"""Write layers and models as classes: variables made in build, losses of layers, a loop that trains them."""

import numpy as np

import muster_tensorflow as tf

tf.keras.utils.set_random_seed(2)
rng = np.random.default_rng(2)


class Linear(tf.keras.layers.Layer):
    def __init__(self, units=32, rate=0.0, **kwargs):
        super().__init__(**kwargs)
        self.units, self.rate = units, rate

    def build(self, input_shape):
        self.w = self.add_weight(
            name="w", shape=(input_shape[-1], self.units), initializer="random_normal", trainable=True
        )
        self.b = self.add_weight(name="b", shape=(self.units,), initializer="zeros", trainable=True)

    def call(self, inputs):
        self.add_loss(self.rate * tf.reduce_sum(tf.square(self.w)))
        return tf.matmul(inputs, self.w) + self.b

    def get_config(self):
        return {**super().get_config(), "units": self.units, "rate": self.rate}


class Counting(tf.keras.layers.Layer):
    """Adds up what it has seen."""

    def build(self, input_shape):
        self.total = self.add_weight(
            name="total", shape=(input_shape[-1],), initializer="zeros", trainable=False
        )

    def call(self, inputs):
        self.total.assign_add(tf.reduce_sum(inputs, axis=0))
        return inputs


class Sampling(tf.keras.layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seeds = tf.keras.random.SeedGenerator(5)

    def call(self, inputs):
        z_mean, z_log_var = inputs
        epsilon = tf.keras.random.normal(z_mean.shape, seed=self.seeds)
        return z_mean + tf.exp(0.5 * z_log_var) * epsilon


layer = Linear(4)
y = layer(tf.ones((2, 3)))
assert y.shape.as_list() == [2, 4]
assert [tuple(each.shape) for each in layer.weights] == [(3, 4), (4,)]
assert Linear.from_config(layer.get_config()).units == 4

count = Counting()
count(tf.ones((2, 2)))
count(tf.ones((2, 2)))
assert count.total.numpy().tolist() == [4.0, 4.0]
assert count.trainable_weights == []


class Autoencoder(tf.keras.Model):
    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.hidden = Linear(16, rate=1e-4)
        self.mean, self.log_var = Linear(2), Linear(2)
        self.sampling = Sampling()
        self.out = Linear(width)

    def call(self, inputs):
        x = tf.nn.relu(self.hidden(inputs))
        z_mean, z_log_var = self.mean(x), self.log_var(x)
        kl = -0.5 * tf.reduce_mean(z_log_var - tf.square(z_mean) - tf.exp(z_log_var) + 1)
        self.add_loss(1e-3 * kl)
        return self.out(self.sampling((z_mean, z_log_var)))


basis = rng.normal(size=(2, 12))
data = (rng.normal(size=(512, 2)) @ basis).astype("float32")
train_dataset = tf.data.Dataset.from_tensor_slices(data).shuffle(512, seed=0).batch(64)
vae = Autoencoder(12)
optimizer = tf.keras.optimizers.Adam(learning_rate=1e-2)
mse = tf.keras.losses.MeanSquaredError()
loss_metric = tf.keras.metrics.Mean()
history = []
for epoch in range(6):
    loss_metric.reset_state()
    for step, batch in enumerate(train_dataset):
        with tf.GradientTape() as tape:
            reconstructed = vae(batch)
            loss = mse(batch, reconstructed)
            loss += sum(vae.losses)
        assert len(vae.losses) == 5
        grads = tape.gradient(loss, vae.trainable_weights)
        optimizer.apply_gradients(zip(grads, vae.trainable_weights, strict=True))
        loss_metric(loss)
        if step % 4 == 0:
            print(f"epoch {epoch} step {step}: mean loss = {loss_metric.result():.4f}")
    history.append(loss_metric.result().numpy())
assert history[-1] < 0.6 * history[0], history
print("ok")
