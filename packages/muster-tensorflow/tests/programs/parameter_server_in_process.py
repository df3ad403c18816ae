"""Parameter servers in one process: a coordinator, two workers, a server; fit and a loop of one's own."""

import os
import random

import numpy as np
import portpicker

import muster_tensorflow as tf

tf.keras.utils.set_random_seed(7)


def create_in_process_cluster(num_workers, num_ps):
    """Creates and starts local servers and returns the cluster_resolver."""
    worker_ports = [portpicker.pick_unused_port() for _ in range(num_workers)]
    ps_ports = [portpicker.pick_unused_port() for _ in range(num_ps)]
    cluster_dict = {"worker": [f"localhost:{port}" for port in worker_ports]}
    if num_ps > 0:
        cluster_dict["ps"] = [f"localhost:{port}" for port in ps_ports]
    cluster_spec = tf.train.ClusterSpec(cluster_dict)
    for job, count in (("worker", num_workers), ("ps", num_ps)):
        for i in range(count):
            tf.distribute.Server(cluster_spec, job_name=job, task_index=i, protocol="grpc")
    return tf.distribute.cluster_resolver.SimpleClusterResolver(cluster_spec, rpc_layer="grpc")


os.environ["GRPC_FAIL_FAST"] = "use_caller"
NUM_WORKERS, NUM_PS = 2, 1
cluster_resolver = create_in_process_cluster(NUM_WORKERS, NUM_PS)
variable_partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(
    min_shard_bytes=(256 << 10), max_shards=NUM_PS
)
strategy = tf.distribute.ParameterServerStrategy(cluster_resolver, variable_partitioner=variable_partitioner)

# Keras' fit.
global_batch_size = 16
rng = np.random.default_rng(0)
x = rng.uniform(size=(64, 10)).astype(np.float32)
y = x.sum(1, keepdims=True).astype(np.float32)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(64).repeat().batch(global_batch_size)
with strategy.scope():
    model = tf.keras.models.Sequential([tf.keras.Input((10,)), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.SGD(0.02), loss="mse", steps_per_execution=5)
history = model.fit(dataset, epochs=4, steps_per_epoch=20, verbose=2).history
assert history["loss"][-1] < history["loss"][0], history

# A loop of one's own.
feature_vocab = ["avenger", "ironman", "batman", "hulk", "spiderman", "kingkong", "wonder_woman"]
label_vocab = ["yes", "no"]
with strategy.scope():
    feature_lookup_layer = tf.keras.layers.StringLookup(vocabulary=feature_vocab)
    label_lookup_layer = tf.keras.layers.StringLookup(
        vocabulary=label_vocab, num_oov_indices=0, mask_token=None
    )


def feature_and_label_gen(num_examples=120):
    rng = random.Random(7)
    examples = {"features": [], "label": []}
    for _ in range(num_examples):
        features = rng.sample(feature_vocab, 3)
        examples["features"].append(features)
        examples["label"].append(["yes"] if "avenger" in features else ["no"])
    return examples


examples = feature_and_label_gen()


def dataset_fn(_):
    raw_dataset = tf.data.Dataset.from_tensor_slices(examples)
    mapped = raw_dataset.map(lambda x: (feature_lookup_layer(x["features"]), label_lookup_layer(x["label"])))
    return mapped.shuffle(200).batch(32).repeat()


with strategy.scope():
    model_input = tf.keras.layers.Input(shape=(3,), dtype=tf.int64, name="model_input")
    emb_output = tf.keras.layers.Embedding(input_dim=len(feature_vocab) + 1, output_dim=16)(model_input)
    emb_output = tf.keras.layers.GlobalAveragePooling1D()(emb_output)
    dense_output = tf.keras.layers.Dense(units=1, activation="sigmoid")(emb_output)
    model = tf.keras.Model({"features": model_input}, dense_output)
    optimizer = tf.keras.optimizers.RMSprop(learning_rate=0.05)
    accuracy = tf.keras.metrics.BinaryAccuracy()


@tf.function
def step_fn(iterator):
    def replica_fn(batch_data, labels):
        with tf.GradientTape() as tape:
            pred = model({"features": batch_data}, training=True)
            per_example_loss = tf.keras.losses.BinaryCrossentropy(reduction="none")(labels, pred)
            loss = tf.nn.compute_average_loss(per_example_loss)
            gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        actual_pred = tf.cast(tf.greater(pred, 0.5), tf.int64)
        accuracy.update_state(labels, actual_pred)
        return loss

    batch_data, labels = next(iterator)
    losses = strategy.run(replica_fn, args=(batch_data, labels))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


@tf.function
def per_worker_dataset_fn():
    return strategy.distribute_datasets_from_function(dataset_fn)


per_worker_dataset = coordinator.create_per_worker_dataset(per_worker_dataset_fn)
per_worker_iterator = iter(per_worker_dataset)
num_epochs, steps_per_epoch = 4, 10
for i in range(num_epochs):
    accuracy.reset_state()
    for _ in range(steps_per_epoch):
        coordinator.schedule(step_fn, args=(per_worker_iterator,))
    coordinator.join()
    print(f"Finished epoch {i}, accuracy is {float(accuracy.result()):f}.")
loss = coordinator.schedule(step_fn, args=(per_worker_iterator,))
print(f"Final loss is {float(loss.fetch()):f}")
assert float(accuracy.result()) > 0.9
assert optimizer.iterations.numpy() == num_epochs * steps_per_epoch + 1
print("ok")
