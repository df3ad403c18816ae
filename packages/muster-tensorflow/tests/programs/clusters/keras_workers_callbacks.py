"""Keras on several workers with callbacks: decay by epoch, backups, TensorBoard, checkpoints; the chief saves."""

import argparse
import json
import os

import numpy as np

import muster_tensorflow as tf
from muster_tensorflow.keras import layers, models

parser = argparse.ArgumentParser()
parser.add_argument("--saved_model_dir", default=os.path.join(os.environ.get("WORK", "."), "saved"))
parser.add_argument("--checkpoint_dir", default=os.path.join(os.environ.get("WORK", "."), "ckpt"))
parser.add_argument("--epochs", type=int, default=4)
args = parser.parse_args()

BUFFER_SIZE, BATCH_SIZE_PER_WORKER = 512, 32


def make_datasets_unbatched():
    def scale(image, label):
        image = tf.cast(image, tf.float32)
        image /= 255
        return image, label

    rng = np.random.default_rng(1)
    labels = rng.integers(0, 10, 512).astype("int64")
    images = rng.integers(0, 90, (512, 28, 28, 1)).astype("uint8")
    for i, label in enumerate(labels):
        images[i, 2 * label : 2 * label + 3] += 150
    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
    return dataset.map(scale).cache().shuffle(BUFFER_SIZE, seed=3).repeat()


def build_and_compile_cnn_model():
    model = models.Sequential()
    model.add(layers.Conv2D(8, (3, 3), strides=2, activation="relu", input_shape=(28, 28, 1)))
    model.add(layers.MaxPooling2D((2, 2)))
    model.add(layers.BatchNormalization())
    model.add(layers.Flatten())
    model.add(layers.Dense(32, activation="relu"))
    model.add(layers.Dropout(0.1))
    model.add(layers.Dense(10, activation="softmax"))
    model.summary()
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def decay(epoch):
    if epoch < 2:
        return 1e-2
    return 1e-3


strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
tf_config = json.loads(os.environ.get("TF_CONFIG") or "{}")
TASK_INDEX = tf_config["task"]["index"]
is_chief = TASK_INDEX == 0

ds_train = make_datasets_unbatched().batch(BATCH_SIZE_PER_WORKER * strategy.num_replicas_in_sync)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
ds_train = ds_train.with_options(options)
print("replicas", strategy.num_replicas_in_sync, "worker", TASK_INDEX)

with strategy.scope():
    multi_worker_model = build_and_compile_cnn_model()


class PrintLR(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print(
            "\nLearning rate for epoch {} is {:.4f}".format(
                epoch + 1, multi_worker_model.optimizer.lr.numpy()
            )
        )


class Batches(tf.keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = 0

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        assert {"loss", "accuracy"} <= set(logs), logs


batches = Batches()
prefix = os.path.join(
    args.checkpoint_dir if is_chief else f"{args.checkpoint_dir}_{TASK_INDEX}", "ckpt_{epoch}"
)
callbacks = [
    tf.keras.callbacks.experimental.BackupAndRestore(os.path.join(args.checkpoint_dir, "backup")),
    tf.keras.callbacks.ModelCheckpoint(filepath=prefix, save_weights_only=True),
    tf.keras.callbacks.LearningRateScheduler(decay),
    tf.keras.callbacks.TensorBoard(
        log_dir=f"{args.checkpoint_dir}_logs/{TASK_INDEX}", update_freq="epoch", profile_batch=0
    ),
    tf.keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=10),
    tf.keras.callbacks.EarlyStopping(monitor="loss", patience=5, restore_best_weights=True),
    tf.keras.callbacks.CSVLogger(f"{args.checkpoint_dir}_{TASK_INDEX}.csv"),
    tf.keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: print("begin", epoch)),
    PrintLR(),
    batches,
]
history = multi_worker_model.fit(
    x=ds_train, epochs=args.epochs, steps_per_epoch=8, callbacks=callbacks, verbose=2 if is_chief else 0
)
print("history", {k: [round(float(v), 2) for v in vs] for k, vs in history.history.items()})
assert batches.seen == 8 * args.epochs

# The chief saves the whole model; every worker has to call save, the others into folders that they remove.
if is_chief:
    model_path = args.saved_model_dir
else:
    model_path = args.saved_model_dir + "/worker_tmp_" + str(TASK_INDEX)
multi_worker_model.save(model_path)
if not is_chief:
    tf.io.gfile.rmtree(model_path)
else:
    latest = tf.train.latest_checkpoint(args.checkpoint_dir)
    assert latest and latest.endswith("ckpt_%d" % args.epochs), latest
    single = tf.keras.models.load_model(model_path)
    print("loaded", single.evaluate(make_datasets_unbatched().batch(64).take(4), verbose=0))
    restored = build_and_compile_cnn_model()
    restored.load_weights(latest)
assert history.history["loss"][-1] < history.history["loss"][0]
print("ok")
