"""A loop of one's own with workers, here the one of a cluster, that saves and goes on where it was."""

import json
import os
import socket

import numpy as np

import muster_tensorflow as tf

tf.keras.utils.set_random_seed(7)

with socket.create_server(("127.0.0.1", 0)) as server:
    port = server.getsockname()[1]
os.environ["TF_CONFIG"] = json.dumps(
    {"cluster": {"worker": [f"localhost:{port}"]}, "task": {"type": "worker", "index": 0}}
)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
per_worker_batch_size, num_epochs, num_steps_per_epoch = 32, 3, 10
num_workers = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])
global_batch_size = per_worker_batch_size * num_workers


def dataset_fn(global_batch_size, input_context):
    batch_size = input_context.get_per_replica_batch_size(global_batch_size)
    rng = np.random.default_rng(2)
    x = rng.normal(size=(320, 6)).astype(np.float32)
    y = (x[:, 0] + x[:, 1] > 0).astype(np.int64)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(320, seed=2).repeat()
    dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return dataset.batch(batch_size)


multi_worker_dataset = strategy.distribute_datasets_from_function(
    lambda input_context: dataset_fn(global_batch_size, input_context)
)


def _is_chief(task_type, task_id, cluster_spec):
    return (
        task_type is None
        or task_type == "chief"
        or (task_type == "worker" and task_id == 0 and "chief" not in cluster_spec.as_dict())
    )


with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.Input((6,)), tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(2)]
    )
    optimizer = tf.keras.optimizers.RMSprop(learning_rate=0.01)
    train_accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="train_accuracy")


@tf.function
def train_step(iterator):
    def step_fn(inputs):
        x, y = inputs
        with tf.GradientTape() as tape:
            predictions = model(x, training=True)
            per_batch_loss = tf.keras.losses.SparseCategoricalCrossentropy(
                from_logits=True, reduction="none"
            )(y, predictions)
            loss = tf.nn.compute_average_loss(per_batch_loss)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        train_accuracy.update_state(y, predictions)
        return loss

    per_replica_losses = strategy.run(step_fn, args=(next(iterator),))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_losses, axis=None)


checkpoint_dir = "ckpt"
epoch = tf.Variable(initial_value=tf.constant(0, dtype=tf.dtypes.int64), name="epoch")
step_in_epoch = tf.Variable(initial_value=tf.constant(0, dtype=tf.dtypes.int64), name="step_in_epoch")
task_type, task_id, cluster_spec = (
    strategy.cluster_resolver.task_type,
    strategy.cluster_resolver.task_id,
    strategy.cluster_resolver.cluster_spec(),
)
assert _is_chief(task_type, task_id, cluster_spec)
checkpoint = tf.train.Checkpoint(model=model, epoch=epoch, step_in_epoch=step_in_epoch, optimizer=optimizer)
checkpoint_manager = tf.train.CheckpointManager(checkpoint, directory=checkpoint_dir, max_to_keep=1)
latest_checkpoint = tf.train.latest_checkpoint(checkpoint_dir)
assert latest_checkpoint is None
losses = []
while epoch.numpy() < num_epochs:
    iterator = iter(multi_worker_dataset)
    total_loss, num_batches = 0.0, 0
    while step_in_epoch.numpy() < num_steps_per_epoch:
        total_loss += train_step(iterator)
        num_batches += 1
        step_in_epoch.assign_add(1)
    losses.append(float(total_loss / num_batches))
    print(f"Epoch: {epoch.numpy()}, accuracy: {float(train_accuracy.result())}, train_loss: {losses[-1]}.")
    train_accuracy.reset_state()
    checkpoint_manager.save()
    epoch.assign_add(1)
    step_in_epoch.assign(0)
assert losses[-1] < losses[0], losses
assert len(tf.io.gfile.glob(os.path.join(checkpoint_dir, "*"))) >= 1

epoch.assign(99)
checkpoint.restore(tf.train.latest_checkpoint(checkpoint_dir))
assert epoch.numpy() == num_epochs - 1
assert step_in_epoch.numpy() == num_steps_per_epoch
print("ok")
