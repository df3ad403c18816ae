"""A program for TPUEstimator, on a machine without one: params of batch sizes, host calls, metrics on the host."""

import os
import tempfile

import numpy as np

import muster_tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

FLAGS = tf.app.flags.FLAGS
tf.flags.DEFINE_string("tpu", default=None, help="The Cloud TPU to use.")
tf.flags.DEFINE_bool("use_tpu", default=False, help="Use TPUs rather than plain CPUs")
tf.flags.DEFINE_string("model_dir", default=None, help="The directory of the model.")
tf.flags.DEFINE_integer("train_batch_size", default=32, help="Batch size for training.")
tf.flags.DEFINE_integer("eval_batch_size", default=32, help="Batch size for evaluation.")
tf.flags.DEFINE_integer("train_steps", default=60, help="The number of steps to use for training.")
tf.flags.DEFINE_integer("steps_per_eval", default=30, help="Steps between evaluations.")
tf.flags.DEFINE_integer("iterations_per_loop", default=10, help="Iterations per TPU training loop.")
tf.flags.DEFINE_integer("num_shards", default=8, help="Number of shards (TPU chips).")
tf.flags.DEFINE_float("base_learning_rate", default=0.1, help="Learning rate for 256 images.")
tf.flags.DEFINE_float("weight_decay", default=1e-4, help="Weight decay coefficient.")
tf.flags.DEFINE_bool("skip_host_call", default=False, help="Skip the host call.")
tf.flags.DEFINE_string("mode", default="train_and_eval", help="train, eval or train_and_eval")

NUM_TRAIN, NUM_EVAL, SIZE, CLASSES = 320, 96, 8, 4


def write_records(path, count, seed):
    rng = np.random.default_rng(seed)
    with tf.python_io.TFRecordWriter(path) as writer:
        for _ in range(count):
            label = int(rng.integers(0, CLASSES))
            image = rng.integers(0, 100, (SIZE, SIZE, 3)).astype("uint8")
            image[2 * label : 2 * label + 2] += 120
            example = tf.train.Example(
                features=tf.train.Features(
                    feature={
                        "image/raw": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image.tobytes()])),
                        "image/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                    }
                )
            )
            writer.write(example.SerializeToString())


class ImageInput(object):
    def __init__(self, is_training, data_dir):
        self.is_training = is_training
        self.data_dir = data_dir

    def set_shapes(self, batch_size, images, labels):
        images.set_shape(images.get_shape().merge_with(tf.TensorShape([batch_size, None, None, None])))
        labels.set_shape(labels.get_shape().merge_with(tf.TensorShape([batch_size])))
        return images, labels

    def dataset_parser(self, value):
        keys_to_features = {
            "image/raw": tf.FixedLenFeature((), tf.string, ""),
            "image/label": tf.FixedLenFeature([], tf.int64, -1),
        }
        parsed = tf.parse_single_example(value, keys_to_features)
        image = tf.reshape(tf.decode_raw(parsed["image/raw"], tf.uint8), [SIZE, SIZE, 3])
        image = tf.cast(image, tf.float32) / 255.0 - 0.5
        if self.is_training:
            image = tf.image.random_brightness(image, 0.05)
        label = tf.cast(tf.reshape(parsed["image/label"], shape=[]), dtype=tf.int32)
        return image, label

    def input_fn(self, params):
        batch_size = params["batch_size"]
        pattern = os.path.join(self.data_dir, "train-*" if self.is_training else "validation-*")
        dataset = tf.data.Dataset.list_files(pattern, shuffle=self.is_training)
        if self.is_training:
            dataset = dataset.repeat()

        def fetch_dataset(filename):
            return tf.data.TFRecordDataset(filename, buffer_size=8 * 1024 * 1024)

        dataset = dataset.apply(
            tf.data.experimental.parallel_interleave(fetch_dataset, cycle_length=2, sloppy=True)
        )
        dataset = dataset.shuffle(256)
        dataset = dataset.apply(
            tf.data.experimental.map_and_batch(
                self.dataset_parser, batch_size=batch_size, num_parallel_batches=2, drop_remainder=True
            )
        )
        dataset = dataset.map(lambda images, labels: self.set_shapes(batch_size, images, labels))
        dataset = dataset.prefetch(tf.data.experimental.AUTOTUNE)
        return dataset


def learning_rate_schedule(params, current_epoch):
    scaled_lr = params["base_learning_rate"] * (params["train_batch_size"] / 256.0)
    decay_rate = scaled_lr * current_epoch / 2
    for mult, start_epoch in [(1.0, 2), (0.1, 5)]:
        decay_rate = tf.where(current_epoch < start_epoch, decay_rate, scaled_lr * mult)
    return decay_rate


def model_fn(features, labels, mode, params):
    if isinstance(features, dict):
        features = features["feature"]
    net = tf.layers.conv2d(
        features,
        8,
        3,
        padding="same",
        use_bias=False,
        kernel_initializer=tf.variance_scaling_initializer(),
        name="conv1",
    )
    net = tf.layers.batch_normalization(
        net,
        axis=3,
        momentum=0.9,
        epsilon=1e-5,
        center=True,
        scale=True,
        training=mode == tf.estimator.ModeKeys.TRAIN,
        fused=True,
        name="bn1",
    )
    net = tf.nn.relu(net)
    net = tf.layers.average_pooling2d(net, 2, 2)
    net = tf.layers.flatten(net)
    logits = tf.layers.dense(net, CLASSES, kernel_initializer=tf.random_normal_initializer(stddev=0.01))
    if mode == tf.estimator.ModeKeys.PREDICT:
        predictions = {
            "classes": tf.argmax(logits, axis=1),
            "probabilities": tf.nn.softmax(logits, name="softmax_tensor"),
        }
        return tf.estimator.EstimatorSpec(
            mode=mode,
            predictions=predictions,
            export_outputs={"classify": tf.estimator.export.PredictOutput(predictions)},
        )

    batch_size = params["batch_size"]
    one_hot_labels = tf.one_hot(labels, CLASSES)
    cross_entropy = tf.losses.softmax_cross_entropy(
        logits=logits, onehot_labels=one_hot_labels, label_smoothing=0.1
    )
    loss = cross_entropy + params["weight_decay"] * tf.add_n(
        [tf.nn.l2_loss(v) for v in tf.trainable_variables() if "batch_normalization" not in v.name]
    )
    host_call = None
    if mode == tf.estimator.ModeKeys.TRAIN:
        global_step = tf.train.get_global_step()
        steps_per_epoch = NUM_TRAIN / params["train_batch_size"]
        current_epoch = tf.cast(global_step, tf.float32) / steps_per_epoch
        learning_rate = learning_rate_schedule(params, current_epoch)
        optimizer = tf.train.MomentumOptimizer(learning_rate=learning_rate, momentum=0.9, use_nesterov=True)
        if params["use_tpu"]:
            optimizer = tf.tpu.CrossShardOptimizer(optimizer)
        update_ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        with tf.control_dependencies(update_ops):
            train_op = optimizer.minimize(loss, global_step)
        if not params["skip_host_call"]:

            def host_call_fn(gs, loss, lr, ce):
                gs = gs[0]
                with tf.compat.v2.summary.create_file_writer(FLAGS.model_dir, max_queue=10).as_default():
                    with tf.compat.v2.summary.record_if(True):
                        tf.compat.v2.summary.scalar("loss", loss[0], step=gs)
                        tf.compat.v2.summary.scalar("learning_rate", lr[0], step=gs)
                        tf.compat.v2.summary.scalar("current_epoch", ce[0], step=gs)
                    return tf.summary.all_v2_summary_ops()

            gs_t = tf.reshape(global_step, [1])
            loss_t = tf.reshape(loss, [1])
            lr_t = tf.reshape(learning_rate, [1])
            ce_t = tf.reshape(current_epoch, [1])
            host_call = (host_call_fn, [gs_t, loss_t, lr_t, ce_t])
    else:
        train_op = None

    eval_metrics = None
    if mode == tf.estimator.ModeKeys.EVAL:

        def metric_fn(labels, logits):
            predictions = tf.argmax(logits, axis=1)
            top_1_accuracy = tf.metrics.accuracy(labels, predictions)
            in_top_2 = tf.cast(tf.nn.in_top_k(logits, labels, 2), tf.float32)
            top_2_accuracy = tf.metrics.mean(in_top_2)
            return {"top_1_accuracy": top_1_accuracy, "top_2_accuracy": top_2_accuracy}

        eval_metrics = (metric_fn, [labels, logits])
    assert batch_size
    return tf.estimator.tpu.TPUEstimatorSpec(
        mode=mode, loss=loss, train_op=train_op, host_call=host_call, eval_metrics=eval_metrics
    )


def main(unused_argv):
    data_dir = tempfile.mkdtemp()
    FLAGS.model_dir = FLAGS.model_dir or tempfile.mkdtemp()
    for i in range(2):
        write_records(os.path.join(data_dir, "train-0000%d" % i), NUM_TRAIN // 2, i)
    write_records(os.path.join(data_dir, "validation-00000"), NUM_EVAL, 9)
    config = tf.estimator.tpu.RunConfig(
        cluster=None,
        model_dir=FLAGS.model_dir,
        save_checkpoints_steps=max(30, FLAGS.iterations_per_loop),
        session_config=tf.ConfigProto(allow_soft_placement=True, log_device_placement=False),
        tpu_config=tf.estimator.tpu.TPUConfig(
            iterations_per_loop=FLAGS.iterations_per_loop,
            num_shards=FLAGS.num_shards,
            per_host_input_for_training=tf.estimator.tpu.InputPipelineConfig.PER_HOST_V2,
        ),
    )
    params = {
        k: FLAGS[k].value
        for k in ("base_learning_rate", "weight_decay", "skip_host_call", "train_batch_size", "use_tpu")
    }
    classifier = tf.estimator.tpu.TPUEstimator(
        use_tpu=FLAGS.use_tpu,
        model_fn=model_fn,
        config=config,
        params=params,
        train_batch_size=FLAGS.train_batch_size,
        eval_batch_size=FLAGS.eval_batch_size,
        predict_batch_size=8,
        export_to_tpu=False,
    )
    train, evaluation = ImageInput(True, data_dir), ImageInput(False, data_dir)
    current_step = (
        tf.train.load_variable(FLAGS.model_dir, tf.GraphKeys.GLOBAL_STEP)
        if (tf.train.latest_checkpoint(FLAGS.model_dir))
        else 0
    )
    while current_step < FLAGS.train_steps:
        next_checkpoint = min(current_step + FLAGS.steps_per_eval, FLAGS.train_steps)
        classifier.train(input_fn=train.input_fn, max_steps=next_checkpoint)
        current_step = next_checkpoint
        tf.logging.info("Starting to evaluate.")
        results = classifier.evaluate(input_fn=evaluation.input_fn, steps=NUM_EVAL // FLAGS.eval_batch_size)
        print("Eval results:", {k: round(float(v), 3) for k, v in sorted(results.items())})
    predicted = list(classifier.predict(evaluation.input_fn))
    print("predicted", len(predicted), sorted(predicted[0]))

    def serving_input_receiver_fn():
        image = tf.placeholder(tf.float32, [None, SIZE, SIZE, 3])
        return tf.estimator.export.TensorServingInputReceiver(image, image)

    export_path = classifier.export_saved_model(tempfile.mkdtemp(), serving_input_receiver_fn)
    print("exported", os.path.isdir(export_path))
    events = [name for name in os.listdir(FLAGS.model_dir) if "tfevents" in name]
    scalars = {}
    for name in events:
        for event in tf.train.summary_iterator(os.path.join(FLAGS.model_dir, name)):
            for value in event.summary.value:
                scalars.setdefault(value.tag, []).append(event.step)
    print({tag: len(steps) for tag, steps in sorted(scalars.items())})
    assert len(scalars["current_epoch"]) == FLAGS.train_steps
    assert results["top_1_accuracy"] > 0.8, results
    print("ok")


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.WARN)
    tf.app.run()
