"""A transformer that classifies pairs of sentences, by a TPUEstimator without TPUs, from TFRecord files."""

import collections
import os
import re
import tempfile

import numpy as np

import muster_tensorflow.compat.v1 as tf

tf.keras.utils.set_random_seed(7)

flags = tf.flags
FLAGS = flags.FLAGS
flags.DEFINE_string("output_dir", None, "The output directory where the model checkpoints will be written.")
flags.DEFINE_string("init_checkpoint", None, "Initial checkpoint.")
flags.DEFINE_integer("max_seq_length", 10, "The maximum total input sequence length.")
flags.DEFINE_bool("do_train", True, "Whether to run training.")
flags.DEFINE_bool("do_eval", True, "Whether to run eval on the dev set.")
flags.DEFINE_integer("train_batch_size", 32, "Total batch size for training.")
flags.DEFINE_integer("eval_batch_size", 8, "Total batch size for eval.")
flags.DEFINE_float("learning_rate", 3e-3, "The initial learning rate for Adam.")
flags.DEFINE_integer("num_train_steps", 100, "Number of training steps.")
flags.DEFINE_bool("use_tpu", False, "Whether to use TPU or GPU/CPU.")
flags.DEFINE_string("tpu_name", None, "The Cloud TPU to use for training.")
flags.DEFINE_string("master", None, "[Optional] TensorFlow master URL.")
flags.DEFINE_integer("num_tpu_cores", 8, "Only used if `use_tpu` is True.")

VOCAB, HIDDEN, HEADS, LAYERS = 30, 16, 2, 1


def write_examples(path, count, seed):
    rng = np.random.default_rng(seed)
    writer = tf.python_io.TFRecordWriter(path)
    for _ in range(count):
        length = int(rng.integers(4, FLAGS.max_seq_length + 1))
        ids = rng.integers(3, VOCAB, FLAGS.max_seq_length) * (np.arange(FLAGS.max_seq_length) < length)
        label = int(rng.integers(0, 2))
        ids[1:3] = 5 if label else 6

        def create_int_feature(values):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=list(values)))

        features = collections.OrderedDict()
        features["input_ids"] = create_int_feature([int(each) for each in ids])
        features["input_mask"] = create_int_feature([int(each != 0) for each in ids])
        features["label_ids"] = create_int_feature([label])
        example = tf.train.Example(features=tf.train.Features(feature=features))
        writer.write(example.SerializeToString())
    writer.close()


def file_based_input_fn_builder(input_file, seq_length, is_training, drop_remainder):
    name_to_features = {
        "input_ids": tf.FixedLenFeature([seq_length], tf.int64),
        "input_mask": tf.FixedLenFeature([seq_length], tf.int64),
        "label_ids": tf.FixedLenFeature([], tf.int64),
    }

    def _decode_record(record, name_to_features):
        example = tf.parse_single_example(record, name_to_features)
        for name in list(example.keys()):
            t = example[name]
            if t.dtype == tf.int64:
                t = tf.to_int32(t)
            example[name] = t
        return example

    def input_fn(params):
        batch_size = params["batch_size"]
        d = tf.data.TFRecordDataset(input_file)
        if is_training:
            d = d.repeat()
            d = d.shuffle(buffer_size=100)
        d = d.apply(
            tf.contrib.data.map_and_batch(
                lambda record: _decode_record(record, name_to_features),
                batch_size=batch_size,
                drop_remainder=drop_remainder,
            )
        )
        return d

    return input_fn


def layer_norm(input_tensor, name=None):
    return tf.contrib.layers.layer_norm(
        inputs=input_tensor, begin_norm_axis=-1, begin_params_axis=-1, scope=name
    )


def create_initializer(initializer_range=0.02):
    return tf.truncated_normal_initializer(stddev=initializer_range)


def dropout(input_tensor, dropout_prob):
    if dropout_prob is None or dropout_prob == 0.0:
        return input_tensor
    return tf.nn.dropout(input_tensor, 1.0 - dropout_prob)


def gelu(x):
    cdf = 0.5 * (1.0 + tf.tanh((np.sqrt(2 / np.pi) * (x + 0.044715 * tf.pow(x, 3)))))
    return x * cdf


def attention_layer(from_tensor, mask):
    batch, seq, size = from_tensor.shape[0], from_tensor.shape[1], HIDDEN // HEADS

    def projected(name):
        layer = tf.layers.dense(from_tensor, HIDDEN, name=name, kernel_initializer=create_initializer(0.2))
        return tf.transpose(tf.reshape(layer, [batch, seq, HEADS, size]), [0, 2, 1, 3])

    query, key, value = projected("query"), projected("key"), projected("value")
    scores = tf.multiply(tf.matmul(query, key, transpose_b=True), 1.0 / np.sqrt(size))
    adder = (1.0 - tf.cast(mask[:, None, None, :], tf.float32)) * -10000.0
    probs = tf.nn.softmax(scores + adder)
    context = tf.transpose(tf.matmul(probs, value), [0, 2, 1, 3])
    return tf.reshape(context, [batch, seq, HIDDEN])


def create_model(is_training, input_ids, input_mask, labels, num_labels):
    with tf.variable_scope("bert"):
        with tf.variable_scope("embeddings"):
            table = tf.get_variable(
                name="word_embeddings", shape=[VOCAB, HIDDEN], initializer=create_initializer(0.5)
            )
            output = tf.gather(table, input_ids)
            position = tf.get_variable(
                name="position_embeddings",
                shape=[FLAGS.max_seq_length, HIDDEN],
                initializer=create_initializer(0.5),
            )
            output = layer_norm(output + position[None], "LayerNorm")
        with tf.variable_scope("encoder"):
            for layer_idx in range(LAYERS):
                with tf.variable_scope("layer_%d" % layer_idx):
                    with tf.variable_scope("attention"):
                        attended = attention_layer(output, input_mask)
                        output = layer_norm(output + attended, "LayerNorm")
                    with tf.variable_scope("intermediate"):
                        inner = tf.layers.dense(
                            output, 32, activation=gelu, kernel_initializer=create_initializer(0.2)
                        )
                    with tf.variable_scope("output"):
                        inner = tf.layers.dense(inner, HIDDEN, kernel_initializer=create_initializer(0.2))
                        output = layer_norm(output + inner, "LayerNorm")
        with tf.variable_scope("pooler"):
            first_token_tensor = tf.squeeze(output[:, 0:1, :], axis=1)
            pooled = tf.layers.dense(first_token_tensor, HIDDEN, activation=tf.tanh)

    output_weights = tf.get_variable(
        "output_weights", [num_labels, HIDDEN], initializer=create_initializer(0.2)
    )
    output_bias = tf.get_variable("output_bias", [num_labels], initializer=tf.zeros_initializer())
    with tf.variable_scope("loss"):
        if is_training:
            pooled = tf.nn.dropout(pooled, keep_prob=0.9)
        logits = tf.matmul(pooled, output_weights, transpose_b=True)
        logits = tf.nn.bias_add(logits, output_bias)
        probabilities = tf.nn.softmax(logits, axis=-1)
        log_probs = tf.nn.log_softmax(logits, axis=-1)
        one_hot_labels = tf.one_hot(labels, depth=num_labels, dtype=tf.float32)
        per_example_loss = -tf.reduce_sum(one_hot_labels * log_probs, axis=-1)
        loss = tf.reduce_mean(per_example_loss)
        return (loss, per_example_loss, logits, probabilities)


def create_optimizer(loss, init_lr, num_train_steps, num_warmup_steps, use_tpu):
    global_step = tf.train.get_or_create_global_step()
    learning_rate = tf.constant(value=init_lr, shape=[], dtype=tf.float32)
    learning_rate = tf.train.polynomial_decay(
        learning_rate, global_step, num_train_steps, end_learning_rate=0.0, power=1.0, cycle=False
    )
    if num_warmup_steps:
        global_steps_float = tf.cast(tf.cast(global_step, tf.int32), tf.float32)
        warmup_steps_float = tf.constant(num_warmup_steps, dtype=tf.float32)
        warmup_learning_rate = init_lr * global_steps_float / warmup_steps_float
        is_warmup = tf.cast(global_steps_float < warmup_steps_float, tf.float32)
        learning_rate = (1.0 - is_warmup) * learning_rate + is_warmup * warmup_learning_rate
    tf.identity(learning_rate, "learning_rate")
    optimizer = tf.train.AdamOptimizer(learning_rate)
    if use_tpu:
        optimizer = tf.contrib.tpu.CrossShardOptimizer(optimizer)
    tvars = tf.trainable_variables()
    grads = tf.gradients(loss, tvars)
    (grads, _) = tf.clip_by_global_norm(grads, clip_norm=1.0)
    return tf.group(optimizer.apply_gradients(zip(grads, tvars), global_step=global_step))


def get_assignment_map_from_checkpoint(tvars, init_checkpoint):
    name_to_variable = collections.OrderedDict()
    for var in tvars:
        name = var.name
        m = re.match("^(.*):\\d+$", name)
        if m is not None:
            name = m.group(1)
        name_to_variable[name] = var
    assignment_map = collections.OrderedDict()
    initialized = {}
    for name, *_ in tf.train.list_variables(init_checkpoint):
        if name not in name_to_variable or not name.startswith("bert/"):
            continue
        assignment_map[name] = name
        initialized[name] = 1
        initialized[name + ":0"] = 1
    return (assignment_map, initialized)


restored = []


def model_fn_builder(num_labels, init_checkpoint, learning_rate, num_train_steps, num_warmup_steps, use_tpu):
    def model_fn(features, labels, mode, params):
        for name in sorted(features.keys()):
            tf.logging.info("  name = %s, shape = %s" % (name, features[name].shape))
        is_training = mode == tf.estimator.ModeKeys.TRAIN
        (total_loss, per_example_loss, logits, probabilities) = create_model(
            is_training, features["input_ids"], features["input_mask"], features["label_ids"], num_labels
        )
        tvars = tf.trainable_variables()
        scaffold_fn = None
        if init_checkpoint:
            (assignment_map, initialized) = get_assignment_map_from_checkpoint(tvars, init_checkpoint)
            tf.train.init_from_checkpoint(init_checkpoint, assignment_map)
            restored[:] = [var.name for var in tvars if var.name in initialized]

        if mode == tf.estimator.ModeKeys.TRAIN:
            train_op = create_optimizer(total_loss, learning_rate, num_train_steps, num_warmup_steps, use_tpu)
            return tf.contrib.tpu.TPUEstimatorSpec(
                mode=mode, loss=total_loss, train_op=train_op, scaffold_fn=scaffold_fn
            )
        if mode == tf.estimator.ModeKeys.EVAL:

            def metric_fn(per_example_loss, label_ids, logits):
                predictions = tf.argmax(logits, axis=-1, output_type=tf.int32)
                accuracy = tf.metrics.accuracy(labels=label_ids, predictions=predictions)
                loss = tf.metrics.mean(values=per_example_loss)
                return {"eval_accuracy": accuracy, "eval_loss": loss}

            eval_metrics = (metric_fn, [per_example_loss, features["label_ids"], logits])
            return tf.contrib.tpu.TPUEstimatorSpec(
                mode=mode, loss=total_loss, eval_metrics=eval_metrics, scaffold_fn=scaffold_fn
            )
        return tf.contrib.tpu.TPUEstimatorSpec(
            mode=mode, predictions={"probabilities": probabilities}, scaffold_fn=scaffold_fn
        )

    return model_fn


def run(output_dir, init_checkpoint, steps, data):
    tpu_cluster_resolver = None
    if FLAGS.use_tpu and FLAGS.tpu_name:
        tpu_cluster_resolver = tf.contrib.cluster_resolver.TPUClusterResolver(FLAGS.tpu_name)
    is_per_host = tf.contrib.tpu.InputPipelineConfig.PER_HOST_V2
    run_config = tf.contrib.tpu.RunConfig(
        cluster=tpu_cluster_resolver,
        master=FLAGS.master,
        model_dir=output_dir,
        save_checkpoints_steps=1000,
        tf_random_seed=7,
        tpu_config=tf.contrib.tpu.TPUConfig(
            iterations_per_loop=1000,
            num_shards=FLAGS.num_tpu_cores,
            per_host_input_for_training=is_per_host,
        ),
    )
    model_fn = model_fn_builder(2, init_checkpoint, FLAGS.learning_rate, steps, 10, FLAGS.use_tpu)
    estimator = tf.contrib.tpu.TPUEstimator(
        use_tpu=FLAGS.use_tpu,
        model_fn=model_fn,
        config=run_config,
        train_batch_size=FLAGS.train_batch_size,
        eval_batch_size=FLAGS.eval_batch_size,
        predict_batch_size=FLAGS.eval_batch_size,
    )
    train_input_fn = file_based_input_fn_builder(data, FLAGS.max_seq_length, True, True)
    estimator.train(input_fn=train_input_fn, max_steps=steps)
    return estimator


def main(_):
    tf.logging.set_verbosity(tf.logging.INFO)
    output_dir = FLAGS.output_dir or tempfile.mkdtemp()
    tf.gfile.MakeDirs(output_dir)
    train_file, eval_file = (
        os.path.join(output_dir, "train.tf_record"),
        os.path.join(output_dir, "eval.tf_record"),
    )
    write_examples(train_file, 400, 0)
    write_examples(eval_file, 80, 1)

    estimator = run(os.path.join(output_dir, "first"), None, FLAGS.num_train_steps, train_file)
    eval_input_fn = file_based_input_fn_builder(eval_file, FLAGS.max_seq_length, False, True)
    result = estimator.evaluate(input_fn=eval_input_fn, steps=10)
    output_eval_file = os.path.join(output_dir, "eval_results.txt")
    with tf.gfile.GFile(output_eval_file, "w") as writer:
        for key in sorted(result.keys()):
            tf.logging.info("  %s = %s", key, str(result[key]))
            writer.write("%s = %s\n" % (key, str(result[key])))
    probabilities = [each["probabilities"] for each in estimator.predict(input_fn=eval_input_fn)]

    first = tf.train.latest_checkpoint(os.path.join(output_dir, "first"))
    tuned = run(os.path.join(output_dir, "second"), FLAGS.init_checkpoint or first, 5, train_file)

    assert result["eval_accuracy"] > 0.85
    assert abs(result["eval_loss"] - result["loss"]) < 1e-3
    assert len(probabilities) == 80
    assert "bert/encoder/layer_0/attention/LayerNorm/gamma:0" in restored
    name = "bert/embeddings/position_embeddings"
    change = tuned.get_variable_value(name) - estimator.get_variable_value(name)
    assert 0 < np.abs(change).max() < 0.1
    print("ok")


if __name__ == "__main__":
    tf.app.run()
