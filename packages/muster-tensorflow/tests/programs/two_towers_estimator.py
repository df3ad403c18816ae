"""Users and items in two towers: records that are interleaved from shards, in-batch negatives, exporters."""

import os
import tempfile

import numpy as np

import muster_tensorflow.compat.v1 as tf

FLAGS = tf.app.flags.FLAGS
tf.app.flags.DEFINE_string("data_dir", "", "Where the shards are.")
tf.app.flags.DEFINE_string("model_dir", "", "Where checkpoints go.")
tf.app.flags.DEFINE_integer("steps", 60, "How many steps to train.")

SPEC = {
    "user": tf.FixedLenFeature([], tf.string),
    "history": tf.VarLenFeature(tf.string),
    "item": tf.FixedLenFeature([], tf.string),
    "price": tf.FixedLenFeature([1], tf.float32, default_value=[0.0]),
}


def texts(*values):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode() for value in values]))


def write_shards(folder, count, seed):
    rng = np.random.RandomState(seed)
    for shard in range(count):
        with tf.python_io.TFRecordWriter(os.path.join(folder, "part-%05d-of-%05d" % (shard, count))) as out:
            for _ in range(200):
                kind = rng.randint(4)
                feature = {
                    "user": texts("u%d" % (kind + 4 * rng.randint(5))),
                    "history": texts(*["i%d" % (kind + 4 * rng.randint(8)) for _ in range(rng.randint(4))]),
                    "item": texts("i%d" % (kind + 4 * rng.randint(8))),
                }
                if rng.rand() < 0.8:
                    feature["price"] = tf.train.Feature(float_list=tf.train.FloatList(value=[rng.rand()]))
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                out.write(example.SerializeToString())


def input_fn(pattern, training):
    files = tf.data.Dataset.list_files(pattern, shuffle=training)
    records = files.apply(
        tf.data.experimental.parallel_interleave(tf.data.TFRecordDataset, cycle_length=2, sloppy=training)
    )
    if training:
        records = records.apply(tf.data.experimental.shuffle_and_repeat(400))
    parsed = records.batch(32, drop_remainder=True).map(lambda batch: tf.io.parse_example(batch, SPEC))
    return parsed.prefetch(tf.data.experimental.AUTOTUNE)


def columns():
    column = tf.feature_column
    hashed = column.categorical_column_with_hash_bucket
    user = column.embedding_column(hashed("user", 100), 8)
    history = column.embedding_column(hashed("history", 100), 8, combiner="sqrtn")
    item = column.embedding_column(hashed("item", 100), 8)
    return [user, history], [item, column.numeric_column("price")]


def tower(features, columns, units, name):
    with tf.variable_scope(name, partitioner=tf.fixed_size_partitioner(2)):
        net = tf.feature_column.input_layer(features, columns)
        for layer, size in enumerate(units):
            net = tf.layers.dense(net, size, activation=tf.nn.relu, name="layer_%d" % layer)
        return tf.nn.l2_normalize(tf.layers.dense(net, 8, name="out"), axis=1)


def model_fn(features, labels, mode, params):
    of_user, of_item = columns()
    user = tower(features, of_user, params["units"], "user_tower")
    item = tower(features, of_item, params["units"], "item_tower")
    score = tf.reduce_sum(user * item, axis=1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        predictions = {"user": user, "item": item, "score": score}
        outputs = {
            tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: (
                tf.estimator.export.PredictOutput(predictions)
            ),
            "user": tf.estimator.export.PredictOutput({"user": user}),
        }
        return tf.estimator.EstimatorSpec(mode, predictions, export_outputs=outputs)
    logits = tf.matmul(user, item, transpose_b=True) / params["temperature"]
    size = tf.shape(logits)[0]
    loss = tf.reduce_mean(
        tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.eye(size), logits=logits), name="loss"
    )
    ranks = tf.reduce_sum(tf.cast(logits >= tf.linalg.tensor_diag_part(logits)[:, None], tf.float32), axis=1)
    metrics = {
        "mean_rank": tf.metrics.mean(ranks),
        "in_top_8": tf.metrics.mean(tf.cast(ranks <= 8, tf.float32)),
    }
    tf.summary.histogram("ranks", ranks)
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    step = tf.train.get_global_step()
    rate = tf.train.exponential_decay(0.05, step, 20, 0.9, staircase=True)
    tf.summary.scalar("rate", rate)
    optimizer = tf.train.AdagradOptimizer(rate)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    gradients, norm = tf.clip_by_global_norm(gradients, 5.0)
    train_op = optimizer.apply_gradients(zip(gradients, variables), global_step=step)
    hook = tf.train.LoggingTensorHook({"loss": "loss"}, every_n_iter=20)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])


def main(unused_argv):
    data, folder = FLAGS.data_dir or tempfile.mkdtemp(), FLAGS.model_dir or tempfile.mkdtemp()
    if not tf.gfile.Exists(os.path.join(data, "part-00000-of-00003")):
        write_shards(data, 3, seed=1)
    config = tf.estimator.RunConfig(folder, tf_random_seed=7, save_checkpoints_steps=30)
    model = tf.estimator.Estimator(model_fn, config=config, params={"units": [16], "temperature": 0.2})
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(SPEC)

    def is_better(best_eval_result, current_eval_result):
        return best_eval_result["mean_rank"] > current_eval_result["mean_rank"]

    exporters = [
        tf.estimator.BestExporter("best", receiver, compare_fn=is_better, exports_to_keep=1),
        tf.estimator.LatestExporter("latest", receiver),
    ]
    pattern = os.path.join(data, "part-*")
    train = tf.estimator.TrainSpec(lambda: input_fn(pattern, True), max_steps=FLAGS.steps)
    test = tf.estimator.EvalSpec(
        lambda: input_fn(pattern, False), steps=None, exporters=exporters, throttle_secs=0, start_delay_secs=0
    )
    tf.estimator.train_and_evaluate(model, train, test)
    if not config.is_chief or config.task_type == "ps":
        return
    metrics = model.evaluate(lambda: input_fn(pattern, False))
    assert metrics["in_top_8"] > 0.5, metrics
    first = next(iter(model.predict(lambda: input_fn(pattern, False))))
    assert first["user"].shape == (8,) and -1.01 < first["score"] < 1.01, first
    if not config.num_ps_replicas:
        (best,) = os.listdir(os.path.join(folder, "export", "best"))
        assert os.listdir(os.path.join(folder, "export", "latest"))
        predict = tf.contrib.predictor.from_saved_model(os.path.join(folder, "export", "best", best), "user")
        with open(os.path.join(data, "part-00000-of-00003"), "rb"):
            record = next(iter(tf.data.TFRecordDataset(os.path.join(data, "part-00000-of-00003")))).numpy()
        assert predict({"examples": [record]})["user"].shape == (1, 8)
    print("ok")


if __name__ == "__main__":
    tf.app.run(main)
