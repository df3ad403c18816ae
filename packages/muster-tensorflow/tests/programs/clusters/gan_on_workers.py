"""A GAN on several workers: a loop of its own under MultiWorkerMirroredStrategy, two tapes, checkpoints of the chief."""

import json
import os
import time

import numpy as np

import muster_tensorflow as tf
from muster_tensorflow.keras import layers

WORK = os.environ.get("WORK", ".")
tf_config = json.loads(os.environ["TF_CONFIG"])
communication = tf.distribute.experimental.CommunicationOptions(
    implementation=tf.distribute.experimental.CommunicationImplementation.AUTO
)
strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=communication)
task_type, task_id = strategy.cluster_resolver.task_type, strategy.cluster_resolver.task_id

BUFFER_SIZE, BATCH_SIZE_PER_REPLICA, NOISE_DIM, EPOCHS = 256, 16, 8, 3
GLOBAL_BATCH_SIZE = BATCH_SIZE_PER_REPLICA * strategy.num_replicas_in_sync


def make_generator_model():
    model = tf.keras.Sequential()
    model.add(layers.Dense(3 * 3 * 8, use_bias=False, input_shape=(NOISE_DIM,)))
    model.add(layers.BatchNormalization())
    model.add(layers.LeakyReLU())
    model.add(layers.Reshape((3, 3, 8)))
    assert model.output_shape == (None, 3, 3, 8)
    model.add(layers.Conv2DTranspose(4, (3, 3), strides=(2, 2), padding="same", use_bias=False))
    assert model.output_shape == (None, 6, 6, 4)
    model.add(layers.BatchNormalization())
    model.add(layers.LeakyReLU())
    model.add(
        layers.Conv2DTranspose(1, (5, 5), strides=(2, 2), padding="same", use_bias=False, activation="tanh")
    )
    assert model.output_shape == (None, 12, 12, 1)
    return model


def make_discriminator_model():
    model = tf.keras.Sequential()
    model.add(layers.Conv2D(8, (5, 5), strides=(2, 2), padding="same", input_shape=[12, 12, 1]))
    model.add(layers.LeakyReLU())
    model.add(layers.Dropout(0.3))
    model.add(layers.Flatten())
    model.add(layers.Dense(1))
    return model


def dataset_fn(input_context):
    rng = np.random.default_rng(0)
    images = np.zeros((256, 12, 12, 1), "float32")
    for image in images:
        i = rng.integers(2, 9)
        image[i : i + 2] = 255.0
    images = (images - 127.5) / 127.5
    dataset = tf.data.Dataset.from_tensor_slices(images)
    dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return dataset.shuffle(BUFFER_SIZE, seed=1).batch(
        input_context.get_per_replica_batch_size(GLOBAL_BATCH_SIZE), drop_remainder=True
    )


with strategy.scope():
    generator = make_generator_model()
    discriminator = make_discriminator_model()
    cross_entropy = tf.keras.losses.BinaryCrossentropy(
        from_logits=True, reduction=tf.keras.losses.Reduction.NONE
    )
    generator_optimizer = tf.keras.optimizers.Adam(1e-3, beta_1=0.5)
    discriminator_optimizer = tf.keras.optimizers.Adam(1e-3, beta_1=0.5)
    gen_metric = tf.keras.metrics.Mean("gen_loss", dtype=tf.float32)
    disc_metric = tf.keras.metrics.Mean("disc_loss", dtype=tf.float32)
    real_accuracy = tf.keras.metrics.BinaryAccuracy(threshold=0.0)
    epoch = tf.Variable(
        0, trainable=False, dtype=tf.int64, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA
    )
    dataset = strategy.distribute_datasets_from_function(dataset_fn)

    def discriminator_loss(real_output, fake_output):
        real_loss = cross_entropy(tf.ones_like(real_output), real_output)
        fake_loss = cross_entropy(tf.zeros_like(fake_output), fake_output)
        total = tf.reduce_sum(real_loss) + tf.reduce_sum(fake_loss)
        return total * (1.0 / GLOBAL_BATCH_SIZE)

    def generator_loss(fake_output):
        loss = cross_entropy(tf.ones_like(fake_output), fake_output)
        return tf.nn.compute_average_loss(loss, global_batch_size=GLOBAL_BATCH_SIZE)


def train_step(images):
    noise = tf.random.normal([BATCH_SIZE_PER_REPLICA, NOISE_DIM])
    with tf.GradientTape() as gen_tape, tf.GradientTape() as disc_tape:
        generated_images = generator(noise, training=True)
        real_output = discriminator(images, training=True)
        fake_output = discriminator(generated_images, training=True)
        gen_loss = generator_loss(fake_output)
        disc_loss = discriminator_loss(real_output, fake_output)
    gradients_of_generator = gen_tape.gradient(gen_loss, generator.trainable_variables)
    gradients_of_discriminator = disc_tape.gradient(disc_loss, discriminator.trainable_variables)
    generator_optimizer.apply_gradients(zip(gradients_of_generator, generator.trainable_variables))
    discriminator_optimizer.apply_gradients(
        zip(gradients_of_discriminator, discriminator.trainable_variables)
    )
    gen_metric.update_state(gen_loss)
    disc_metric.update_state(disc_loss)
    real_accuracy.update_state(tf.ones_like(real_output), real_output)
    return gen_loss, disc_loss


@tf.function
def distributed_train_step(dist_inputs):
    per_replica_gen, per_replica_disc = strategy.run(train_step, args=(dist_inputs,))
    return (
        strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_gen, axis=None),
        strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_disc, axis=None),
    )


def _is_chief(task_type, task_id):
    return task_type is None or task_type == "chief" or (task_type == "worker" and task_id == 0)


checkpoint_dir = os.path.join(WORK, "training_checkpoints")
if not _is_chief(task_type, task_id):
    checkpoint_dir = os.path.join(checkpoint_dir, "workertemp_" + str(task_id))
checkpoint = tf.train.Checkpoint(
    epoch=epoch,
    generator_optimizer=generator_optimizer,
    discriminator_optimizer=discriminator_optimizer,
    generator=generator,
    discriminator=discriminator,
)
manager = tf.train.CheckpointManager(checkpoint, checkpoint_dir, max_to_keep=1)
latest = tf.train.latest_checkpoint(os.path.join(WORK, "training_checkpoints"))
if latest:
    checkpoint.restore(latest)
seed = tf.random.normal([4, NOISE_DIM], seed=5)
steps = 0
while int(epoch.numpy()) < EPOCHS:
    start = time.time()
    gen_metric.reset_states()
    disc_metric.reset_states()
    for batch in dataset:
        gen_loss, disc_loss = distributed_train_step(batch)
        steps += 1
    epoch.assign_add(1)
    manager.save()
    if not _is_chief(task_type, task_id):
        tf.io.gfile.rmtree(checkpoint_dir)
    print(
        "epoch %d gen %.3f disc %.3f (%s) step %d"
        % (epoch.numpy(), gen_metric.result(), disc_metric.result(), gen_loss.shape, steps)
    )
predictions = generator(seed, training=False)
assert predictions.shape == (4, 12, 12, 1)
print("steps", steps, generator_optimizer.iterations.numpy(), discriminator_optimizer.iterations.numpy())
total = float(sum(np.abs(v.numpy()).sum() for v in generator.trainable_variables))
both = strategy.run(lambda: tf.distribute.get_replica_context().all_gather(tf.constant([total]), axis=0))
first, second = [
    float(x) for x in np.asarray(both if not hasattr(both, "values") else both.values[0]).ravel()
]
assert abs(first - second) < 1e-3 * first, (first, second)
if _is_chief(task_type, task_id):
    assert tf.train.latest_checkpoint(checkpoint_dir).endswith("ckpt-3")
assert 0.2 < float(disc_metric.result()) < 3
print("ok")
