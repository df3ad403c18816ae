"""A small residual network: UPDATE_OPS, weight decay over collections, rates in steps, hooks and early stopping."""

import functools
import tempfile

import numpy as np

import muster_tensorflow.compat.v1 as tf

_BATCH_NORM_DECAY = 0.9
_BATCH_NORM_EPSILON = 1e-5


def pictures(count, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 0.3, (count, 8, 8, 3)).astype(np.float32)
    y = rng.integers(0, 4, count).astype(np.int32)
    for picture, label in zip(x, y):
        picture[
            4 * (label // 2) : 4 * (label // 2) + 4, 4 * (label % 2) : 4 * (label % 2) + 4, label % 3
        ] += 1
    return x, y


def batch_norm(inputs, training, data_format):
    return tf.layers.batch_normalization(
        inputs=inputs,
        axis=1 if data_format == "channels_first" else 3,
        momentum=_BATCH_NORM_DECAY,
        epsilon=_BATCH_NORM_EPSILON,
        center=True,
        scale=True,
        training=training,
        fused=True,
    )


def conv2d_fixed_padding(inputs, filters, kernel_size, strides, data_format):
    return tf.layers.conv2d(
        inputs=inputs,
        filters=filters,
        kernel_size=kernel_size,
        strides=strides,
        padding=("SAME" if strides == 1 else "VALID"),
        use_bias=False,
        kernel_initializer=tf.variance_scaling_initializer(),
        data_format=data_format,
    )


def building_block(inputs, filters, training, data_format):
    shortcut = inputs
    inputs = batch_norm(inputs, training, data_format)
    inputs = tf.nn.relu(inputs)
    inputs = conv2d_fixed_padding(inputs, filters, 3, 1, data_format)
    inputs = batch_norm(inputs, training, data_format)
    inputs = tf.nn.relu(inputs)
    inputs = conv2d_fixed_padding(inputs, filters, 3, 1, data_format)
    return inputs + shortcut


class Model:
    def __init__(self, blocks, num_classes, data_format="channels_last"):
        self.blocks = blocks
        self.num_classes = num_classes
        self.data_format = data_format

    def __call__(self, inputs, training):
        with tf.variable_scope("resnet_model"):
            inputs = conv2d_fixed_padding(inputs, 8, 3, 1, self.data_format)
            inputs = tf.identity(inputs, "initial_conv")
            for i in range(self.blocks):
                inputs = building_block(inputs, 8, training, self.data_format)
                inputs = tf.identity(inputs, f"block_layer{i + 1}")
            inputs = tf.nn.relu(batch_norm(inputs, training, self.data_format))
            inputs = tf.reduce_mean(inputs, [1, 2], keepdims=True)
            inputs = tf.identity(inputs, "final_reduce_mean")
            inputs = tf.squeeze(inputs, [1, 2])
            inputs = tf.layers.dense(inputs=inputs, units=self.num_classes)
            return tf.identity(inputs, "final_dense")


def learning_rate_with_decay(initial, boundaries, values):
    def learning_rate_fn(global_step):
        rates = [initial * value for value in values]
        rate = tf.train.piecewise_constant(global_step, boundaries, rates)
        warmup = initial * tf.cast(global_step, tf.float32) / tf.cast(10, tf.float32)
        return tf.cond(global_step < 10, lambda: warmup, lambda: rate)

    return learning_rate_fn


def resnet_model_fn(features, labels, mode, params):
    model = Model(params["blocks"], 4)
    logits = model(features, mode == tf.estimator.ModeKeys.TRAIN)
    logits = tf.cast(logits, tf.float32)
    predictions = {
        "classes": tf.argmax(logits, axis=1),
        "probabilities": tf.nn.softmax(logits, name="softmax_tensor"),
    }
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(
            mode=mode,
            predictions=predictions,
            export_outputs={"predict": tf.estimator.export.PredictOutput(predictions)},
        )
    cross_entropy = tf.losses.sparse_softmax_cross_entropy(logits=logits, labels=labels)
    tf.identity(cross_entropy, name="cross_entropy")
    tf.summary.scalar("cross_entropy", cross_entropy)

    def exclude_batch_norm(name):
        return "batch_normalization" not in name

    l2_loss = params["weight_decay"] * tf.add_n(
        [
            tf.nn.l2_loss(tf.cast(v, tf.float32))
            for v in tf.trainable_variables()
            if exclude_batch_norm(v.name)
        ]
    )
    tf.summary.scalar("l2_loss", l2_loss)
    loss = cross_entropy + l2_loss

    if mode == tf.estimator.ModeKeys.TRAIN:
        global_step = tf.train.get_or_create_global_step()
        learning_rate = params["learning_rate_fn"](global_step)
        tf.identity(learning_rate, name="learning_rate")
        tf.summary.scalar("learning_rate", learning_rate)
        optimizer = tf.train.MomentumOptimizer(learning_rate=learning_rate, momentum=0.9)
        grad_vars = optimizer.compute_gradients(loss)
        minimize_op = optimizer.apply_gradients(grad_vars, global_step)
        update_ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        train_op = tf.group(minimize_op, update_ops)
    else:
        train_op = None

    accuracy = tf.metrics.accuracy(labels, predictions["classes"])
    top_2 = tf.metrics.mean(tf.nn.in_top_k(predictions=logits, targets=labels, k=2, name="top_2_op"))
    metrics = {"accuracy": accuracy, "accuracy_top_2": top_2}
    tf.identity(accuracy[1], name="train_accuracy")
    tf.summary.scalar("train_accuracy", accuracy[1])
    return tf.estimator.EstimatorSpec(
        mode=mode, predictions=predictions, loss=loss, train_op=train_op, eval_metric_ops=metrics
    )


def input_fn(is_training, batch_size):
    x, y = pictures(400, 0) if is_training else pictures(100, 1)
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    if is_training:
        dataset = dataset.apply(tf.contrib.data.shuffle_and_repeat(buffer_size=400))
    return dataset.apply(
        tf.contrib.data.map_and_batch(lambda image, label: (image, label), batch_size, drop_remainder=False)
    ).prefetch(tf.contrib.data.AUTOTUNE)


def main(_):
    tf.set_random_seed(1)
    logged = []

    def formatter(values):
        logged.append(values)
        return ", ".join(f"{name} = {value}" for name, value in values.items())

    session_config = tf.ConfigProto(
        inter_op_parallelism_threads=2,
        intra_op_parallelism_threads=2,
        allow_soft_placement=True,
        gpu_options=tf.GPUOptions(allow_growth=True),
    )
    run_config = tf.estimator.RunConfig(
        train_distribute=tf.contrib.distribute.OneDeviceStrategy("/cpu:0"),
        session_config=session_config,
        save_checkpoints_secs=60 * 60 * 24,
        model_dir=tempfile.mkdtemp(),
    )
    classifier = tf.estimator.Estimator(
        model_fn=resnet_model_fn,
        config=run_config,
        params={
            "blocks": 1,
            "weight_decay": 2e-4,
            "learning_rate_fn": learning_rate_with_decay(0.1, [60, 100], [1, 0.1, 0.01]),
        },
    )
    tensors_to_log = {name: name for name in ("learning_rate", "cross_entropy", "train_accuracy")}
    hooks = [
        tf.train.LoggingTensorHook(tensors=tensors_to_log, every_n_iter=20, formatter=formatter),
        tf.train.StepCounterHook(50),
        tf.contrib.estimator.stop_if_higher_hook(
            classifier, "accuracy", 0.999, run_every_secs=None, run_every_steps=50
        ),
    ]
    train_spec = tf.estimator.TrainSpec(functools.partial(input_fn, True, 32), max_steps=150, hooks=hooks)
    eval_spec = tf.estimator.EvalSpec(functools.partial(input_fn, False, 50), throttle_secs=0)
    tf.estimator.train_and_evaluate(classifier, train_spec, eval_spec)
    results = classifier.evaluate(functools.partial(input_fn, False, 50))
    print(results, logged[0], logged[-1])

    assert results["accuracy"] > 0.8
    assert results["accuracy_top_2"] >= results["accuracy"]
    assert logged[0]["learning_rate"] == 0
    assert logged[1]["learning_rate"] > 0.09
    assert "resnet_model/conv2d/kernel" in classifier.get_variable_names()
    print("ok")


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.INFO)
    tf.app.run()
