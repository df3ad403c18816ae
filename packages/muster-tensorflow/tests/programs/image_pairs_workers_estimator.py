"""Two small images are of one kind or not: an Estimator on several devices, all reduced; an own metric; resumed."""

import os
import tempfile

import numpy as np

import muster_tensorflow as tf


def pairs(seed, rows=400):
    rng = np.random.default_rng(seed)
    kinds = np.random.default_rng(0).normal(size=(4, 8, 8, 1))
    left, right = rng.integers(0, 4, rows), rng.integers(0, 4, rows)
    right = np.where(rng.random(rows) < 0.5, left, right)
    noise = [rng.normal(size=(rows, 8, 8, 1)) * 0.3 for _ in range(2)]
    images = [(kinds[which] + each).astype("float32") for which, each in zip((left, right), noise)]
    return {"left": images[0], "right": images[1]}, (left == right).astype("float32")


def input_fn(mode, input_context=None):
    training = mode == tf.estimator.ModeKeys.TRAIN
    dataset = tf.data.Dataset.from_tensor_slices(pairs(1 if training else 2))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    dataset = dataset.with_options(options)
    batch = 32
    if input_context:
        batch = input_context.get_per_replica_batch_size(batch)
    if training:
        dataset = dataset.shuffle(400, seed=2).repeat()
    return dataset.batch(batch)


class Encoder(tf.keras.Model):
    """A network that both images share."""

    def __init__(self):
        super().__init__(name="encoder")
        self.first = tf.keras.layers.Conv2D(8, 3, activation="relu")
        self.normalized = tf.keras.layers.BatchNormalization(momentum=0.8)
        self.out = tf.keras.layers.Dense(16)

    def call(self, images, training=False):
        net = self.normalized(self.first(images), training=training)
        return self.out(tf.reshape(net, [-1, 6 * 6 * 8]))


def model_fn(features, labels, mode, params):
    training = mode == tf.estimator.ModeKeys.TRAIN
    encoder = Encoder()
    left, right = encoder(features["left"], training=training), encoder(features["right"], training=training)
    distance = tf.norm(left - right + 1e-6, axis=1)
    predictions = {"distance": distance, "same": distance < params["margin"] / 2}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    far = tf.maximum(params["margin"] - distance, 0.0)
    loss = tf.nn.compute_average_loss(
        labels * tf.square(distance) + (1 - labels) * tf.square(far), global_batch_size=params["batch"]
    )
    if mode == tf.estimator.ModeKeys.EVAL:
        right_ones = tf.keras.metrics.BinaryAccuracy(name="right")
        right_ones.update_state(labels[:, None], tf.cast(predictions["same"], tf.float32)[:, None])
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"right": right_ones})
    optimizer = tf.keras.optimizers.Adam(params["rate"])
    optimizer.iterations = tf.compat.v1.train.get_or_create_global_step()
    updates = optimizer.get_updates(loss, encoder.trainable_variables)
    train_op = tf.group(*updates, *encoder.get_updates_for(None))
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def main():
    folder = os.environ.get("MODEL_DIR") or tempfile.mkdtemp()
    strategy = tf.distribute.MirroredStrategy() if "TF_CONFIG" not in os.environ else None
    if strategy is None and "ps" not in os.environ["TF_CONFIG"]:
        strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
    config = tf.estimator.RunConfig(
        folder, train_distribute=strategy, tf_random_seed=4, save_checkpoints_steps=50
    )
    params = {"margin": 2.0, "rate": 0.005, "batch": 32}
    test = tf.estimator.EvalSpec(lambda: input_fn(tf.estimator.ModeKeys.EVAL), steps=None, throttle_secs=0)
    for steps in (60, 120):
        model = tf.estimator.Estimator(model_fn, config=config, params=params)
        train = tf.estimator.TrainSpec(
            lambda input_context=None: input_fn(tf.estimator.ModeKeys.TRAIN, input_context), max_steps=steps
        )
        if config.num_ps_replicas and steps == 60:
            continue
        tf.estimator.train_and_evaluate(model, train, test)
    if not config.is_chief or config.task_type == "ps":
        return
    if strategy is None or config.num_worker_replicas < 2:
        metrics = model.evaluate(test.input_fn)
        assert metrics["global_step"] >= 120 and metrics["right"] > 0.8, metrics
    print("ok")


if __name__ == "__main__":
    main()
