"""Keras with workers, as the one worker of a cluster that TF_CONFIG describes: saving by the chief."""

import json
import os
import socket

import numpy as np

import muster_tensorflow as tf

tf.keras.utils.set_random_seed(7)

with socket.create_server(("127.0.0.1", 0)) as server:
    port = server.getsockname()[1]
os.environ.pop("TF_CONFIG", None)
tf_config = {"cluster": {"worker": [f"localhost:{port}"]}, "task": {"type": "worker", "index": 0}}
os.environ["TF_CONFIG"] = json.dumps(tf_config)


def mnist_dataset(batch_size):
    rng = np.random.default_rng(1)
    y_train = rng.integers(0, 10, 640).astype(np.int64)
    x_train = rng.integers(0, 100, (640, 28, 28)).astype("uint8")
    for i, label in enumerate(y_train):
        x_train[i, 2 * label : 2 * label + 3] += 150
    x_train = x_train / np.float32(255)
    return (
        tf.data.Dataset.from_tensor_slices((x_train, y_train)).shuffle(640, seed=1).repeat().batch(batch_size)
    )


def build_and_compile_cnn_model():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.InputLayer(input_shape=(28, 28)),
            tf.keras.layers.Reshape(target_shape=(28, 28, 1)),
            tf.keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )
    model.compile(
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=tf.keras.optimizers.SGD(learning_rate=0.05, momentum=0.9),
        metrics=["accuracy"],
    )
    return model


def _is_chief(task_type, task_id):
    return (task_type == "worker" and task_id == 0) or task_type is None or task_type == "chief"


def write_filepath(filepath, task_type, task_id):
    dirpath, base = os.path.split(filepath)
    if not _is_chief(task_type, task_id):
        dirpath = os.path.join(dirpath, "workertemp_" + str(task_id))
        tf.io.gfile.makedirs(dirpath)
    return os.path.join(dirpath, base)


strategy = tf.distribute.MultiWorkerMirroredStrategy()
num_workers = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])
per_worker_batch_size = 64
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
multi_worker_dataset = mnist_dataset(per_worker_batch_size * num_workers).with_options(options)

with strategy.scope():
    multi_worker_model = build_and_compile_cnn_model()

callbacks = [
    tf.keras.callbacks.ModelCheckpoint(filepath="checkpoints/{epoch}.weights.h5", save_weights_only=True),
    tf.keras.callbacks.BackupAndRestore(backup_dir="backup"),
]
history = multi_worker_model.fit(
    multi_worker_dataset, epochs=3, steps_per_epoch=10, callbacks=callbacks, verbose=2
)
assert history.history["loss"][-1] < history.history["loss"][0]
assert len(tf.io.gfile.glob("checkpoints/*.weights.h5")) == 3

task_type, task_id = strategy.cluster_resolver.task_type, strategy.cluster_resolver.task_id
assert (task_type, task_id) == ("worker", 0)
write_model_path = write_filepath("keras-model.keras", task_type, task_id)
multi_worker_model.save(write_model_path)
loaded_model = tf.keras.models.load_model("keras-model.keras")
x, y = next(iter(mnist_dataset(64)))
np.testing.assert_allclose(loaded_model.predict(x), multi_worker_model.predict(x), rtol=1e-4, atol=1e-4)

checkpoint = tf.train.Checkpoint(model=multi_worker_model)
write_checkpoint_dir = write_filepath("ckpt", task_type, task_id)
manager = tf.train.CheckpointManager(checkpoint, directory=write_checkpoint_dir, max_to_keep=1)
manager.save()
latest_checkpoint = tf.train.latest_checkpoint("ckpt")
assert latest_checkpoint == manager.latest_checkpoint
checkpoint.restore(latest_checkpoint)
evaluated = multi_worker_model.evaluate(mnist_dataset(64), steps=10, verbose=0, return_dict=True)
assert evaluated["accuracy"] > 0.5, evaluated
print("ok")
