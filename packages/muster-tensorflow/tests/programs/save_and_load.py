"""Save and load models: checkpoints during training, weights by hand, whole models, a manager for a loop."""

import os
import tempfile

import numpy as np

import muster_tensorflow as tf
from muster_tensorflow import keras

tf.keras.utils.set_random_seed(7)

os.chdir(tempfile.mkdtemp())
rng = np.random.default_rng(0)
train_x = rng.normal(size=(512, 20)).astype("float32")
train_y = (train_x[:, :10].sum(axis=1) > 0).astype("int64")
test_x, test_y = train_x[400:], train_y[400:]


def create_model():
    model = tf.keras.models.Sequential(
        [
            keras.layers.Input((20,)),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(2),
        ]
    )
    model.compile(
        optimizer="adam",
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[tf.keras.metrics.SparseCategoricalAccuracy()],
    )
    return model


# A checkpoint of the weights at the end of each epoch.
checkpoint_path = "training_1/cp.ckpt"
checkpoint_dir = os.path.dirname(checkpoint_path)
cp_callback = tf.keras.callbacks.ModelCheckpoint(filepath=checkpoint_path, save_weights_only=True, verbose=0)
model = create_model()
model.fit(train_x, train_y, epochs=6, validation_data=(test_x, test_y), callbacks=[cp_callback], verbose=0)
print(sorted(os.listdir(checkpoint_dir)))
_, trained = model.evaluate(test_x, test_y, verbose=0)

model = create_model()
_, untrained = model.evaluate(test_x, test_y, verbose=0)
model.load_weights(checkpoint_path)
_, restored = model.evaluate(test_x, test_y, verbose=0)
assert restored == trained > untrained

# One file an epoch, and the newest of them.
checkpoint_path = "training_2/cp-{epoch:04d}.ckpt"
cp_callback = tf.keras.callbacks.ModelCheckpoint(
    filepath=checkpoint_path, verbose=0, save_weights_only=True, save_freq="epoch"
)
model = create_model()
model.save_weights(checkpoint_path.format(epoch=0))
model.fit(train_x, train_y, epochs=3, callbacks=[cp_callback], verbose=0)
latest = tf.train.latest_checkpoint("training_2")
assert latest.endswith("cp-0003.ckpt"), latest
again = create_model()
again.load_weights(latest).expect_partial()
np.testing.assert_array_equal(again.predict(test_x, verbose=0), model.predict(test_x, verbose=0))

# Weights by hand.
model.save_weights("./checkpoints/my_checkpoint")
again = create_model()
again.load_weights("./checkpoints/my_checkpoint")
assert again.evaluate(test_x, test_y, verbose=0)[1] == model.evaluate(test_x, test_y, verbose=0)[1]

# Whole models: a folder, and the best one by its validation.
model.save("saved_model/my_model")
print(sorted(os.listdir("saved_model/my_model")))
new_model = tf.keras.models.load_model("saved_model/my_model")
np.testing.assert_array_equal(new_model.predict(test_x, verbose=0), model.predict(test_x, verbose=0))
best = tf.keras.callbacks.ModelCheckpoint("best_model", monitor="val_loss", save_best_only=True)
model.fit(train_x, train_y, epochs=2, validation_data=(test_x, test_y), callbacks=[best], verbose=0)
keras.models.load_model("best_model").evaluate(test_x, test_y, verbose=0)

# A loop that saves its model, its optimizer, its step and its place in the data, and goes on after an end.
net = keras.models.Sequential([keras.layers.Input((20,)), keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam(0.05)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        output = net(x)
        loss = tf.reduce_mean(tf.abs(output[:, 0] - tf.cast(y, tf.float32)))
    gradients = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
    return loss


def train_and_checkpoint(checkpoint, manager, iterator, steps):
    checkpoint.restore(manager.latest_checkpoint)
    print(f"Restored from {manager.latest_checkpoint}" if manager.latest_checkpoint else "Starting anew.")
    for _ in range(steps):
        x, y = next(iterator)
        loss = train_step(x, y)
        checkpoint.step.assign_add(1)
        if int(checkpoint.step) % 10 == 0:
            path = manager.save()
            print(f"Saved for step {int(checkpoint.step)}: {path}, loss {float(loss):.3f}")


dataset = tf.data.Dataset.from_tensor_slices((train_x, train_y)).repeat().batch(32)
iterator = iter(dataset)
checkpoint = tf.train.Checkpoint(step=tf.Variable(1), optimizer=optimizer, net=net, iterator=iterator)
manager = tf.train.CheckpointManager(checkpoint, "./tf_ckpts", max_to_keep=3, checkpoint_name="model")
train_and_checkpoint(checkpoint, manager, iterator, 50)
assert [os.path.basename(each) for each in manager.checkpoints] == ["model-3", "model-4", "model-5"]

before = net.get_weights()
iterator = iter(dataset)
checkpoint = tf.train.Checkpoint(step=tf.Variable(1), optimizer=optimizer, net=net, iterator=iterator)
manager = tf.train.CheckpointManager(checkpoint, "./tf_ckpts", max_to_keep=3, checkpoint_name="model")
train_and_checkpoint(checkpoint, manager, iterator, 5)
assert int(checkpoint.step) == 55
assert not np.array_equal(before[0], net.get_weights()[0])

path = checkpoint.write("./by_hand/state")
checkpoint.step.assign(0)
checkpoint.read(path).assert_consumed()
assert int(checkpoint.step) == 55
print("ok")
