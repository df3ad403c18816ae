"""Programs of TensorFlow's tutorials, as written there, except for their size."""

import os

import numpy as np
import pytest

import muster_tensorflow as tf

GLOBAL_BATCH_SIZE, NUM_EPOCHS, NUM_STEPS_PER_EPOCH = 8, 3, 4


def write_filepath(filepath, is_chief, task_id):
    dirpath, base = os.path.dirname(filepath), os.path.basename(filepath)
    if not is_chief:
        dirpath = os.path.join(dirpath, "workertemp_" + str(task_id))
        tf.io.gfile.makedirs(dirpath)
    return os.path.join(dirpath, base)


def dataset_fn(input_context):
    x = np.random.default_rng(0).normal(size=(64, 5)).astype(np.float32)
    dataset = tf.data.Dataset.from_tensor_slices((x, (x.sum(axis=1) > 0).astype(np.int64)))
    dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return dataset.repeat().batch(input_context.get_per_replica_batch_size(GLOBAL_BATCH_SIZE))


def custom_training(checkpoint_dir, is_chief, until):
    """Run "Custom training loop with Keras and MultiWorkerMirroredStrategy"; return each epoch's loss."""
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((5,)), tf.keras.layers.Dense(2)])
        multi_worker_dataset = strategy.distribute_datasets_from_function(dataset_fn)
        optimizer = tf.keras.optimizers.RMSprop(learning_rate=0.1)
        train_accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="train_accuracy")

    @tf.function
    def train_step(iterator):
        def step_fn(inputs):
            x, y = inputs
            with tf.GradientTape() as tape:
                predictions = model(x, training=True)
                per_example_loss = tf.keras.losses.SparseCategoricalCrossentropy(
                    from_logits=True, reduction=tf.keras.losses.Reduction.NONE
                )(y, predictions)
                loss = tf.nn.compute_average_loss(per_example_loss)
                model_losses = model.losses
                if model_losses:
                    loss += tf.nn.scale_regularization_loss(tf.add_n(model_losses))
            grads = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
            train_accuracy.update_state(y, predictions)
            return loss

        per_replica_losses = strategy.run(step_fn, args=(next(iterator),))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_losses, axis=None)

    epoch = tf.Variable(initial_value=tf.constant(0, dtype=tf.dtypes.int64), name="epoch")
    step_in_epoch = tf.Variable(initial_value=tf.constant(0, dtype=tf.dtypes.int64), name="step_in_epoch")
    checkpoint = tf.train.Checkpoint(
        model=model, optimizer=optimizer, epoch=epoch, step_in_epoch=step_in_epoch
    )
    write_checkpoint_dir = write_filepath(os.path.join(checkpoint_dir, "ckpt"), is_chief, 1)
    checkpoint_manager = tf.train.CheckpointManager(checkpoint, directory=write_checkpoint_dir, max_to_keep=1)
    latest_checkpoint = tf.train.latest_checkpoint(os.path.join(checkpoint_dir, "ckpt"))
    if latest_checkpoint:
        checkpoint.restore(latest_checkpoint)

    losses = []
    while epoch.numpy() < until:
        iterator = iter(multi_worker_dataset)
        total_loss, num_batches = 0.0, 0
        while step_in_epoch.numpy() < NUM_STEPS_PER_EPOCH:
            total_loss += train_step(iterator)
            num_batches += 1
            step_in_epoch.assign_add(1)
        losses.append(float(total_loss / num_batches))
        train_accuracy.reset_state()
        epoch.assign_add(1)
        step_in_epoch.assign(0)
        checkpoint_manager.save()
        if not is_chief:
            tf.io.gfile.rmtree(write_checkpoint_dir)
    return losses


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
def test_custom_training_goes_on_from_its_checkpoint(tmp_path):
    tf.random.set_seed(0)
    whole = custom_training(tmp_path / "whole", True, NUM_EPOCHS)
    assert whole[-1] < whole[0]

    tf.random.set_seed(0)
    first = custom_training(tmp_path / "parts", True, 2)
    tf.random.set_seed(1)  # other initial values, which the checkpoint replaces
    rest = custom_training(tmp_path / "parts", True, NUM_EPOCHS)
    np.testing.assert_allclose(first + rest, whole, rtol=1e-5)

    custom_training(tmp_path / "other", False, 1)
    assert not tf.io.gfile.exists(tmp_path / "other" / "workertemp_1" / "ckpt")


def test_drawing_noise_in_a_function():
    """Check a small step of the tutorial "Deep Convolutional GAN": two tapes, and new noise in every call."""
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        generator = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)])
        discriminator = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
        generator_optimizer, discriminator_optimizer = tf.keras.optimizers.Adam(), tf.keras.optimizers.Adam()
        cross_entropy = tf.keras.losses.BinaryCrossentropy(from_logits=True)

    def train_step(images):
        noise = tf.random.normal([4, 3])
        with tf.GradientTape() as gen_tape, tf.GradientTape() as disc_tape:
            generated_images = generator(noise, training=True)
            real_output = discriminator(images, training=True)
            fake_output = discriminator(generated_images, training=True)
            gen_loss = cross_entropy(tf.ones_like(fake_output), fake_output)
            disc_loss = cross_entropy(tf.ones_like(real_output), real_output) + cross_entropy(
                tf.zeros_like(fake_output), fake_output
            )
        gen_grads = gen_tape.gradient(gen_loss, generator.trainable_variables)
        disc_grads = disc_tape.gradient(disc_loss, discriminator.trainable_variables)
        generator_optimizer.apply_gradients(zip(gen_grads, generator.trainable_variables, strict=True))
        discriminator_optimizer.apply_gradients(
            zip(disc_grads, discriminator.trainable_variables, strict=True)
        )
        return noise

    @tf.function
    def distributed_train_step(images):
        return strategy.run(train_step, args=(images,))

    before = np.array(generator.trainable_variables[0].value)
    seen = []
    for images in strategy.experimental_distribute_dataset(
        tf.data.Dataset.from_tensor_slices(np.ones((16, 2), np.float32)).batch(8)
    ):
        seen += strategy.experimental_local_results(distributed_train_step(images))
    assert len({np.asarray(noise).tobytes() for noise in seen}) == 4
    assert (np.array(generator.trainable_variables[0].value) != before).all()
