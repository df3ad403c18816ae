"""Mixed precision, with fit and in a loop that scales its loss."""

import numpy as np

import muster_tensorflow as tf
from muster_tensorflow import keras
from muster_tensorflow.keras import layers, mixed_precision

tf.keras.utils.set_random_seed(7)

policy = mixed_precision.Policy("mixed_float16")
mixed_precision.set_global_policy(policy)
assert policy.compute_dtype == "float16"
assert policy.variable_dtype == "float32"

inputs = keras.Input(shape=(64,), name="digits")
dense1 = layers.Dense(64, activation="relu", name="dense_1")
x = dense1(inputs)
x = layers.Dense(64, activation="relu", name="dense_2")(x)
assert dense1.dtype_policy.name == "mixed_float16"
assert x.dtype == "float16"
assert dense1.kernel.dtype == "float32"
x = layers.Dense(4, name="dense_logits")(x)
outputs = layers.Activation("softmax", dtype="float32", name="predictions")(x)
assert outputs.dtype == "float32"
model = keras.Model(inputs=inputs, outputs=outputs)
model.compile(
    loss="sparse_categorical_crossentropy",
    optimizer=keras.optimizers.RMSprop(0.001),
    metrics=["accuracy"],
)
rng = np.random.default_rng(0)
y_train = rng.integers(0, 4, 512)
x_train = rng.normal(0, 0.5, (512, 64)).astype("float32")
x_train[np.arange(512), y_train] += 2
initial_weights = model.get_weights()
history = model.fit(x_train, y_train, batch_size=64, epochs=4, validation_split=0.2, verbose=0)
assert history.history["val_accuracy"][-1] > 0.7, history.history
model.set_weights(initial_weights)

# A loop of one's own, which scales the loss.
loss_object = tf.keras.losses.SparseCategoricalCrossentropy()
optimizer = mixed_precision.LossScaleOptimizer(keras.optimizers.RMSprop(0.001))
train_dataset = tf.data.Dataset.from_tensor_slices((x_train, y_train)).shuffle(512, seed=1).batch(64)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        predictions = model(x, training=True)
        loss = loss_object(y, predictions)
        scaled_loss = optimizer.scale_loss(loss)
    scaled_gradients = tape.gradient(scaled_loss, model.trainable_variables)
    optimizer.apply_gradients(zip(scaled_gradients, model.trainable_variables, strict=True))
    return loss


losses = [np.mean([float(train_step(x, y)) for x, y in train_dataset]) for _ in range(5)]
assert losses[-1] < losses[0], losses
mixed_precision.set_global_policy("float32")
print("ok")
