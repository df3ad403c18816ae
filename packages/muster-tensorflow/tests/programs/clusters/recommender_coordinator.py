"""A two-tower recommender with a ClusterCoordinator: tables that a partitioner divides, checkpoints, evaluation."""

import json
import os

import numpy as np

import muster_tensorflow as tf

tf_config = json.loads(os.environ["TF_CONFIG"])
WORK = os.environ.get("WORK", ".")
NUM_USERS, NUM_MOVIES, DIM, BATCH_SIZE = 60, 40, 8, 32
STEPS_PER_EPOCH, EPOCHS = 20, 4

cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if cluster_resolver.task_type in ("worker", "ps"):
    os.environ["GRPC_FAIL_FAST"] = "use_caller"
    server = tf.distribute.Server(
        cluster_resolver.cluster_spec(),
        job_name=cluster_resolver.task_type,
        task_index=cluster_resolver.task_id,
        protocol=cluster_resolver.rpc_layer or "grpc",
        start=True,
    )
    server.join()
    raise SystemExit

num_ps = len(tf_config["cluster"]["ps"])
variable_partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(
    min_shard_bytes=256, max_shards=num_ps
)
strategy = tf.distribute.experimental.ParameterServerStrategy(
    cluster_resolver, variable_partitioner=variable_partitioner
)


class TwoTower(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.user = tf.keras.layers.Embedding(
            NUM_USERS + 1, DIM, embeddings_initializer=tf.keras.initializers.RandomNormal(stddev=0.1)
        )
        self.movie = tf.keras.layers.Embedding(
            NUM_MOVIES + 1, DIM, embeddings_regularizer=tf.keras.regularizers.l2(1e-6)
        )
        self.user_bias = tf.keras.layers.Embedding(NUM_USERS + 1, 1, embeddings_initializer="zeros")
        self.movie_bias = tf.keras.layers.Embedding(NUM_MOVIES + 1, 1, embeddings_initializer="zeros")
        self.dense = tf.keras.layers.Dense(8, activation=tf.nn.relu)
        self.out = tf.keras.layers.Dense(1)

    def call(self, inputs, training=None):
        u, m = self.user(inputs["user"]), self.movie(inputs["movie"])
        dot = tf.reduce_sum(u * m, axis=-1, keepdims=True)
        hidden = self.dense(tf.concat([u, m, u * m], axis=-1))
        if training:
            hidden = tf.nn.dropout(hidden, rate=0.1)
        return dot + self.user_bias(inputs["user"]) + self.movie_bias(inputs["movie"]) + self.out(hidden)


rng = np.random.default_rng(3)
taste, kind = rng.normal(size=(NUM_USERS, 2)), rng.normal(size=(NUM_MOVIES, 2))
users, movies = rng.integers(0, NUM_USERS, 2000), rng.integers(0, NUM_MOVIES, 2000)
ratings = np.clip(np.round(3 + (taste[users] * kind[movies]).sum(1)), 1, 5).astype("float32")
raw = {"user": np.char.add("u", users.astype(str)), "movie": np.char.add("m", movies.astype(str))}

with strategy.scope():
    user_lookup = tf.keras.layers.StringLookup(vocabulary=[f"u{i}" for i in range(NUM_USERS)])
    movie_lookup = tf.keras.layers.StringLookup(vocabulary=[f"m{i}" for i in range(NUM_MOVIES)])


def dataset_fn(input_context):
    per_replica = input_context.get_per_replica_batch_size(BATCH_SIZE)
    ds = tf.data.Dataset.from_tensor_slices((raw, ratings[:, None]))
    ds = ds.map(
        lambda x, y: ({"user": user_lookup(x["user"]), "movie": movie_lookup(x["movie"])}, y),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    ds = ds.shuffle(200, seed=input_context.input_pipeline_id).repeat()
    return ds.batch(per_replica, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


with strategy.scope():
    model = TwoTower()
    optimizer = tf.keras.optimizers.Adagrad(learning_rate=0.1)
    train_loss = tf.keras.metrics.Mean(name="train_loss")
    rmse = tf.keras.metrics.RootMeanSquaredError()
    step_counter = tf.Variable(0, dtype=tf.int64, trainable=False, aggregation=tf.VariableAggregation.SUM)
    model({"user": tf.zeros((1,), tf.int64), "movie": tf.zeros((1,), tf.int64)})
# Each table that is large enough has a shard on each server.
assert [len(model.user.weights), len(model.movie.weights), len(model.dense.weights)] == [
    num_ps,
    num_ps,
    1 + num_ps,
]
assert model.user.weights[0].shape == (31, DIM) and model.user.weights[1].shape == (30, DIM)
assert len(model.trainable_variables) == 11, [v.name for v in model.trainable_variables]


@tf.function
def train_step(iterator):
    def replica_fn(inputs, labels):
        with tf.GradientTape() as tape:
            predictions = model(inputs, training=True)
            per_example = tf.keras.losses.MeanSquaredError(reduction=tf.keras.losses.Reduction.NONE)(
                labels, predictions
            )
            loss = tf.nn.compute_average_loss(per_example)
            loss += tf.nn.scale_regularization_loss(tf.add_n(model.losses))
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients, _ = tf.clip_by_global_norm([tf.convert_to_tensor(g) for g in gradients], 5.0)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        train_loss.update_state(loss)
        rmse.update_state(labels, predictions)
        step_counter.assign_add(1)
        return loss

    inputs, labels = next(iterator)
    losses = strategy.run(replica_fn, args=(inputs, labels))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


@tf.function
def per_worker_dataset_fn():
    return strategy.distribute_datasets_from_function(dataset_fn)


coordinator = tf.distribute.experimental.coordinator.ClusterCoordinator(strategy)
per_worker_dataset = coordinator.create_per_worker_dataset(per_worker_dataset_fn)
per_worker_iterator = iter(per_worker_dataset)

checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, step=step_counter)
manager = tf.train.CheckpointManager(checkpoint, os.path.join(WORK, "recommender"), max_to_keep=2)
if manager.latest_checkpoint:
    checkpoint.restore(manager.latest_checkpoint)
start = int(step_counter.numpy())
writer = tf.summary.create_file_writer(os.path.join(WORK, "logs"))
losses = []
for epoch in range(start // STEPS_PER_EPOCH, EPOCHS):
    train_loss.reset_states()
    rmse.reset_states()
    for _ in range(STEPS_PER_EPOCH):
        last = coordinator.schedule(train_step, args=(per_worker_iterator,))
    coordinator.join()
    assert coordinator.done()
    with writer.as_default():
        tf.summary.scalar("loss", train_loss.result(), step=epoch)
    losses.append(float(train_loss.result()))
    print("epoch %d loss %.3f rmse %.3f last %.3f" % (epoch, losses[-1], rmse.result().numpy(), last.fetch()))
    manager.save()
print("steps", step_counter.numpy(), optimizer.iterations.numpy())
names = [name for name, _ in tf.train.list_variables(manager.latest_checkpoint)]
assert sum("embeddings" in name for name in names) >= 4, names

# Inline evaluation.
eval_rmse = tf.keras.metrics.RootMeanSquaredError()
ds = tf.data.Dataset.from_tensor_slices((raw, ratings[:, None])).take(500).batch(100)
for x, y in ds:
    predictions = model({"user": user_lookup(x["user"]), "movie": movie_lookup(x["movie"])}, training=False)
    eval_rmse.update_state(y, predictions)
print("eval", float(eval_rmse.result()))
assert losses[-1] < losses[0]
assert float(eval_rmse.result()) < 1.4
print("ok")
