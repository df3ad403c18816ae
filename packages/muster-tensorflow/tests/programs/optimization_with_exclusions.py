"""Optimization as for BERT: warm-up and decay, weight decay with exclusions, gradients that add up over steps."""

import re
import tempfile

import numpy as np

import muster_tensorflow as tf


class WarmUp(tf.keras.optimizers.schedules.LearningRateSchedule):
    """Applies a warmup schedule on a given learning rate decay schedule."""

    def __init__(self, initial_learning_rate, decay_schedule_fn, warmup_steps, power=1.0, name=None):
        super().__init__()
        self.initial_learning_rate = initial_learning_rate
        self.warmup_steps = warmup_steps
        self.power = power
        self.decay_schedule_fn = decay_schedule_fn
        self.name = name

    def __call__(self, step):
        with tf.name_scope(self.name or "WarmUp") as name:
            global_step_float = tf.cast(step, tf.float32)
            warmup_steps_float = tf.cast(self.warmup_steps, tf.float32)
            warmup_percent_done = global_step_float / warmup_steps_float
            warmup_learning_rate = self.initial_learning_rate * tf.math.pow(warmup_percent_done, self.power)
            return tf.cond(
                global_step_float < warmup_steps_float,
                lambda: warmup_learning_rate,
                lambda: self.decay_schedule_fn(step - self.warmup_steps),
                name=name,
            )

    def get_config(self):
        return {
            "initial_learning_rate": self.initial_learning_rate,
            "decay_schedule_fn": self.decay_schedule_fn,
            "warmup_steps": self.warmup_steps,
            "power": self.power,
            "name": self.name,
        }


class AdamWeightDecay(tf.keras.optimizers.legacy.Adam):
    """Adam with decoupled weight decay, which leaves out the variables that patterns name."""

    def __init__(
        self,
        learning_rate=0.001,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-7,
        amsgrad=False,
        weight_decay_rate=0.0,
        include_in_weight_decay=None,
        exclude_from_weight_decay=None,
        gradient_clip_norm=1.0,
        name="AdamWeightDecay",
        **kwargs,
    ):
        super().__init__(learning_rate, beta_1, beta_2, epsilon, amsgrad, name, **kwargs)
        self.weight_decay_rate = weight_decay_rate
        self.gradient_clip_norm = gradient_clip_norm
        self._include_in_weight_decay = include_in_weight_decay
        self._exclude_from_weight_decay = exclude_from_weight_decay

    @classmethod
    def from_config(cls, config):
        return super().from_config(config, custom_objects={"WarmUp": WarmUp})

    def _prepare_local(self, var_device, var_dtype, apply_state):
        super()._prepare_local(var_device, var_dtype, apply_state)
        apply_state[(var_device, var_dtype)]["weight_decay_rate"] = tf.constant(
            self.weight_decay_rate, name="adam_weight_decay_rate"
        )

    def _decay_weights_op(self, var, learning_rate, apply_state):
        do_decay = self._do_use_weight_decay(var.name)
        if do_decay:
            return var.assign_sub(
                learning_rate * var * apply_state[(var.device, var.dtype.base_dtype)]["weight_decay_rate"],
                use_locking=self._use_locking,
            )
        return tf.no_op()

    def apply_gradients(self, grads_and_vars, name=None, experimental_aggregate_gradients=True):
        grads, tvars = list(zip(*grads_and_vars))
        if experimental_aggregate_gradients and self.gradient_clip_norm > 0.0:
            (grads, _) = tf.clip_by_global_norm(grads, clip_norm=self.gradient_clip_norm)
        return super().apply_gradients(
            zip(grads, tvars), name=name, experimental_aggregate_gradients=experimental_aggregate_gradients
        )

    def _get_lr(self, var_device, var_dtype, apply_state):
        """Retrieves the learning rate with the given state."""
        if apply_state is None:
            return self._decayed_lr_t[var_dtype], {}
        apply_state = apply_state or {}
        coefficients = apply_state.get((var_device, var_dtype))
        if coefficients is None:
            coefficients = self._fallback_apply_state(var_device, var_dtype)
            apply_state[(var_device, var_dtype)] = coefficients
        return coefficients["lr_t"], {"apply_state": apply_state}

    def _resource_apply_dense(self, grad, var, apply_state=None):
        lr_t, kwargs = self._get_lr(var.device, var.dtype.base_dtype, apply_state)
        decay = self._decay_weights_op(var, lr_t, apply_state)
        with tf.control_dependencies([decay]):
            return super()._resource_apply_dense(grad, var, **kwargs)

    def _resource_apply_sparse(self, grad, var, indices, apply_state=None):
        lr_t, kwargs = self._get_lr(var.device, var.dtype.base_dtype, apply_state)
        decay = self._decay_weights_op(var, lr_t, apply_state)
        with tf.control_dependencies([decay]):
            return super()._resource_apply_sparse(grad, var, indices, **kwargs)

    def get_config(self):
        config = super().get_config()
        config.update({"weight_decay_rate": self.weight_decay_rate})
        return config

    def _do_use_weight_decay(self, param_name):
        """Whether to use L2 weight decay for `param_name`."""
        if self.weight_decay_rate == 0:
            return False
        if self._include_in_weight_decay:
            for r in self._include_in_weight_decay:
                if re.search(r, param_name) is not None:
                    return True
        if self._exclude_from_weight_decay:
            for r in self._exclude_from_weight_decay:
                if re.search(r, param_name) is not None:
                    return False
        return True


def create_optimizer(init_lr, num_train_steps, num_warmup_steps):
    lr_schedule = tf.keras.optimizers.schedules.PolynomialDecay(
        initial_learning_rate=init_lr, decay_steps=num_train_steps, end_learning_rate=0.0
    )
    if num_warmup_steps:
        lr_schedule = WarmUp(
            initial_learning_rate=init_lr, decay_schedule_fn=lr_schedule, warmup_steps=num_warmup_steps
        )
    return AdamWeightDecay(
        learning_rate=lr_schedule,
        weight_decay_rate=0.5,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        exclude_from_weight_decay=["LayerNorm", "layer_norm", "bias"],
    )


class Encoder(tf.keras.Model):
    def __init__(self, vocab, size):
        super().__init__()
        self.embeddings = tf.keras.layers.Embedding(vocab, size, name="word_embeddings")
        self.attention = tf.keras.layers.MultiHeadAttention(2, size // 2, name="attention")
        self.norm = tf.keras.layers.LayerNormalization(name="LayerNorm")
        self.pooler = tf.keras.layers.Dense(size, activation="tanh", name="pooler")
        self.classifier = tf.keras.layers.Dense(
            2, name="classifier", kernel_initializer=tf.keras.initializers.TruncatedNormal(stddev=0.02)
        )

    def call(self, inputs, training=False):
        ids = inputs["input_ids"]
        mask = tf.cast(inputs["input_mask"][:, tf.newaxis, :], tf.bool)
        x = self.embeddings(ids)
        x = self.norm(x + self.attention(x, x, attention_mask=mask))
        first_token = tf.squeeze(x[:, 0:1, :], axis=1)
        return self.classifier(self.pooler(first_token))


class Constant(tf.keras.initializers.Initializer):
    """Values that are the same everywhere."""

    def __init__(self, seed):
        self.seed = seed

    def __call__(self, shape, dtype=None, **kwargs):
        return tf.constant(np.random.default_rng(self.seed).normal(0, 0.1, tuple(shape)), dtype or tf.float32)


rng = np.random.default_rng(0)
ids = rng.integers(1, 30, (128, 6)).astype("int32")
ids[:, 0] = 0
labels = (ids[:, 1:] < 10).any(1).astype("int32")
features = {"input_ids": ids, "input_mask": np.ones_like(ids)}

# The numbers of a small model with fixed values.
small = tf.keras.Sequential(
    [
        tf.keras.layers.Dense(3, kernel_initializer=Constant(1), name="dense"),
        tf.keras.layers.LayerNormalization(name="LayerNorm"),
        tf.keras.layers.Dense(1, kernel_initializer=Constant(2), name="out"),
    ]
)
small.build((None, 4))
optimizer = create_optimizer(0.1, 20, 4)
x = np.linspace(-1, 1, 32).reshape(8, 4).astype("float32")
for _ in range(6):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(small(x) - tf.constant(x[:, :1])))
    optimizer.apply_gradients(zip(tape.gradient(loss, small.trainable_variables), small.trainable_variables))
print("small", [round(float(tf.reduce_sum(tf.abs(v))), 4) for v in small.trainable_variables])
schedule = WarmUp(0.1, tf.keras.optimizers.schedules.PolynomialDecay(0.1, 20, 0.0), 4)
print(
    "rate",
    [round(float(schedule(step)), 5) for step in (0, 2, 4, 10)],
    float(optimizer._decayed_lr(tf.float32)),
)
print("config", sorted(optimizer.get_config()))

# fit.
tf.keras.utils.set_random_seed(3)
model = Encoder(30, 16)
steps = 120
model.compile(
    optimizer=create_optimizer(5e-3, steps, 10),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
dataset = tf.data.Dataset.from_tensor_slices((features, labels)).shuffle(128, seed=1).repeat().batch(32)
history = model.fit(dataset, steps_per_epoch=40, epochs=3, verbose=0)
print("loss", [round(v, 2) for v in history.history["loss"]])
assert history.history["loss"][-1] < history.history["loss"][0]
norms = {v.name: float(tf.norm(v)) for v in model.trainable_variables}
print(len(norms), sorted(norms)[:3])
path = tempfile.mkdtemp() + "/weights"
model.save_weights(path)
again = Encoder(30, 16)
again.compile(optimizer=create_optimizer(5e-3, steps, 10), loss="mse")
again({k: v[:1] for k, v in features.items()})
again.load_weights(path)
np.testing.assert_allclose(
    again.predict(features, verbose=0), model.predict(features, verbose=0), rtol=1e-4, atol=1e-5
)

# Gradients of several batches that add up to one update.
accumulated = [tf.Variable(tf.zeros_like(v), trainable=False) for v in model.trainable_variables]
optimizer = create_optimizer(1e-3, 10, 2)


@tf.function
def accumulate(batch, labels):
    with tf.GradientTape() as tape:
        logits = model(batch, training=True)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)) / 2
    for total, gradient in zip(accumulated, tape.gradient(loss, model.trainable_variables)):
        total.assign_add(tf.convert_to_tensor(gradient))
    return loss


@tf.function
def apply():
    optimizer.apply_gradients(zip([v.read_value() for v in accumulated], model.trainable_variables))
    for v in accumulated:
        v.assign(tf.zeros_like(v))


for i, (batch, y) in enumerate(dataset.take(8), 1):
    loss = accumulate(batch, y)
    if i % 2 == 0:
        apply()
print("updates", optimizer.iterations.numpy())
assert optimizer.iterations.numpy() == 4
print("ok")
