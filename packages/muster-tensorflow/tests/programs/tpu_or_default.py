"""A program for TPUs, which takes the default strategy where there is none; several steps in one function."""

import numpy as np

import muster_tensorflow as tf

tf.keras.utils.set_random_seed(7)

try:
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="")
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    print("All devices: ", tf.config.list_logical_devices("TPU"))
    strategy = tf.distribute.TPUStrategy(resolver)
except ValueError:
    print("No TPU was found.")
    strategy = tf.distribute.get_strategy()
print("REPLICAS:", strategy.num_replicas_in_sync)

rng = np.random.default_rng(0)
y = rng.integers(0, 3, 960)
x = rng.normal(0, 0.4, (960, 8, 8, 1)).astype(np.float32)
x[np.arange(960), y * 2] += 1.0


def create_model():
    return tf.keras.Sequential(
        [
            tf.keras.layers.Conv2D(8, 3, activation="relu", input_shape=(8, 8, 1)),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(16, activation="relu"),
            tf.keras.layers.Dense(3),
        ]
    )


def get_dataset(batch_size, is_training=True):
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    if is_training:
        dataset = dataset.shuffle(960)
        dataset = dataset.repeat()
    return dataset.batch(batch_size, drop_remainder=is_training)


batch_size = 32 * strategy.num_replicas_in_sync
steps_per_epoch = 960 // batch_size
with strategy.scope():
    model = create_model()
    model.compile(
        optimizer="adam",
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["sparse_categorical_accuracy"],
        steps_per_execution=10,
    )
history = model.fit(
    get_dataset(batch_size),
    epochs=2,
    steps_per_epoch=steps_per_epoch,
    validation_data=get_dataset(batch_size, is_training=False),
    validation_steps=960 // batch_size,
    verbose=2,
)
assert history.history["val_sparse_categorical_accuracy"][-1] > 0.8

with strategy.scope():
    model = create_model()
    optimizer = tf.keras.optimizers.Adam()
    training_loss = tf.keras.metrics.Mean("training_loss", dtype=tf.float32)
    training_accuracy = tf.keras.metrics.SparseCategoricalAccuracy("training_accuracy", dtype=tf.float32)
per_replica_batch_size = batch_size // strategy.num_replicas_in_sync
train_dataset = strategy.distribute_datasets_from_function(
    lambda _: get_dataset(per_replica_batch_size, is_training=True)
)


@tf.function
def train_multiple_steps(iterator, steps):
    """The step function for several steps."""

    def step_fn(inputs):
        images, labels = inputs
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            per_example_loss = tf.keras.losses.sparse_categorical_crossentropy(
                labels, logits, from_logits=True
            )
            loss = tf.nn.compute_average_loss(per_example_loss)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(list(zip(grads, model.trainable_variables, strict=True)))
        training_loss.update_state(loss * strategy.num_replicas_in_sync)
        training_accuracy.update_state(labels, logits)

    for _ in range(steps):
        strategy.run(step_fn, args=(next(iterator),))


train_iterator = iter(train_dataset)
for epoch in range(2):
    print(f"Epoch: {epoch}/2")
    for _ in range(steps_per_epoch // 5):
        train_multiple_steps(train_iterator, 5)
    accuracy = float(training_accuracy.result())
    print(f"Current step: {optimizer.iterations.numpy()}, accuracy: {round(accuracy * 100, 2)}%")
    training_loss.reset_state()
    training_accuracy.reset_state()
assert optimizer.iterations.numpy() == 2 * (steps_per_epoch // 5) * 5
assert accuracy > 0.7, accuracy
print("ok")
