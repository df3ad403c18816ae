"""A classifier of digits with Keras under MirroredStrategy: callbacks, decay, saving, loading."""

import os

from sklearn.datasets import load_digits

import muster_tensorflow as tf

cpus = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy([device.name for device in tf.config.list_logical_devices("CPU")])
print(f"Number of devices: {strategy.num_replicas_in_sync}")
assert strategy.num_replicas_in_sync == 2
tf.keras.utils.set_random_seed(3)

images, labels = load_digits(return_X_y=True)
images = images.reshape(-1, 8, 8, 1).astype("uint8")
num_train = 1500
BUFFER_SIZE = 2000
BATCH_SIZE_PER_REPLICA = 32
BATCH_SIZE = BATCH_SIZE_PER_REPLICA * strategy.num_replicas_in_sync
EPOCHS = 6


def scale(image, label):
    image = tf.cast(image, tf.float32)
    image /= 16
    return image, label


train = tf.data.Dataset.from_tensor_slices((images[:num_train], labels[:num_train]))
test = tf.data.Dataset.from_tensor_slices((images[num_train:], labels[num_train:]))
train_dataset = train.map(scale).cache().shuffle(BUFFER_SIZE).batch(BATCH_SIZE)
eval_dataset = test.map(scale).batch(BATCH_SIZE)


def make_model():
    return tf.keras.Sequential(
        [
            tf.keras.layers.Conv2D(16, 3, activation="relu", input_shape=(8, 8, 1)),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )


with strategy.scope():
    model = make_model()
    model.compile(
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=tf.keras.optimizers.Adam(learning_rate=0.003),
        metrics=["accuracy"],
    )

checkpoint_dir = "./training_checkpoints"
checkpoint_prefix = os.path.join(checkpoint_dir, "ckpt_{epoch}.weights.h5")


def decay(epoch):
    if epoch < 3:
        return 3e-3
    if epoch < 5:
        return 1e-3
    return 1e-4


class PrintLR(tf.keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.rates = []

    def on_epoch_end(self, epoch, logs=None):
        rate = float(self.model.optimizer.learning_rate)
        self.rates.append(round(rate, 6))
        print(f"\nLearning rate for epoch {epoch + 1} is {rate}")


print_lr = PrintLR()
callbacks = [
    tf.keras.callbacks.TensorBoard(log_dir="./logs"),
    tf.keras.callbacks.ModelCheckpoint(filepath=checkpoint_prefix, save_weights_only=True),
    tf.keras.callbacks.LearningRateScheduler(decay),
    print_lr,
]
history = model.fit(
    train_dataset, epochs=EPOCHS, callbacks=callbacks, validation_data=eval_dataset, verbose=2
)
assert print_lr.rates == [0.003, 0.003, 0.003, 0.001, 0.001, 0.0001]
assert history.history["loss"][-1] < history.history["loss"][0]
assert any(name.startswith("events") for _, _, names in os.walk("./logs") for name in names)
assert len(tf.io.gfile.glob(os.path.join(checkpoint_dir, "ckpt_*.weights.h5"))) == EPOCHS

model.load_weights(checkpoint_prefix.format(epoch=EPOCHS))
eval_loss, eval_acc = model.evaluate(eval_dataset, verbose=0)
print(f"Eval loss: {eval_loss}, Eval accuracy: {eval_acc}")
assert eval_acc > 0.85

path = "my_model.keras"
model.save(path)
unreplicated_model = tf.keras.models.load_model(path)
unreplicated_model.compile(
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    optimizer=tf.keras.optimizers.Adam(),
    metrics=["accuracy"],
)
loss, accuracy = unreplicated_model.evaluate(eval_dataset, verbose=0)
assert abs(loss - eval_loss) < 1e-4

with strategy.scope():
    replicated_model = tf.keras.models.load_model(path)
    replicated_model.compile(
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=tf.keras.optimizers.Adam(),
        metrics=["accuracy"],
    )
    loss, accuracy = replicated_model.evaluate(eval_dataset, verbose=0)
assert abs(loss - eval_loss) < 1e-4
assert abs(accuracy - eval_acc) < 1e-6
print("ok")
