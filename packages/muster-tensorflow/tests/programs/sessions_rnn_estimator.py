"""The next page of a session, by a GRU over sequence columns; warm starts, listeners, and custom metrics."""

import collections
import os
import tempfile

import numpy as np

import muster_tensorflow.compat.v1 as tf

PAGES = ["home", "search", "item", "cart", "pay"]
NEXT = {"home": "search", "search": "item", "item": "cart", "cart": "pay", "pay": "home"}
Sizes = collections.namedtuple("Sizes", "embedding hidden")


def sessions(seed, rows):
    rng = np.random.RandomState(seed)
    for _ in range(rows):
        pages = [PAGES[rng.randint(5)]]
        while len(pages) < rng.randint(3, 9):
            pages.append(NEXT[pages[-1]] if rng.rand() < 0.9 else PAGES[rng.randint(5)])
        yield {"pages": pages[:-1], "times": rng.rand(len(pages) - 1), "length": len(pages) - 1}, pages[-1]


def input_fn(seed, rows, mode, params):
    types = ({"pages": tf.string, "times": tf.float32, "length": tf.int32}, tf.string)
    shapes = ({"pages": [None], "times": [None], "length": []}, [])
    dataset = tf.data.Dataset.from_generator(lambda: sessions(seed, rows), types, shapes)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(PAGES, list(range(5))), -1)
    dataset = dataset.map(lambda features, page: (features, table.lookup(page)))
    if mode == tf.estimator.ModeKeys.TRAIN:
        dataset = dataset.shuffle(100).repeat()
    padded = ({"pages": [8], "times": [8], "length": []}, [])
    return dataset.padded_batch(params["batch"], padded, ({"pages": "", "times": 0.0, "length": 0}, -1))


def top_k(labels, logits, k):
    found = tf.nn.in_top_k(logits, labels, k)
    return tf.metrics.mean(tf.cast(found, tf.float32), name="top_%d" % k)


def model_fn(features, labels, mode, params, config):
    sizes = params["sizes"]
    ids = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(PAGES, np.arange(5, dtype=np.int64), value_dtype=tf.int64), 1
    ).lookup(features["pages"])
    with tf.variable_scope("embed"):
        table = tf.get_variable(
            "table", [6, sizes.embedding], initializer=tf.truncated_normal_initializer(stddev=0.3)
        )
        inputs = tf.concat([tf.nn.embedding_lookup(table, ids), features["times"][..., tf.newaxis]], axis=-1)
    with tf.variable_scope("rnn"):
        cell = tf.nn.rnn_cell.GRUCell(sizes.hidden)
        if mode == tf.estimator.ModeKeys.TRAIN:
            cell = tf.nn.rnn_cell.DropoutWrapper(cell, output_keep_prob=0.9)
        _, state = tf.nn.dynamic_rnn(cell, inputs, sequence_length=features["length"], dtype=tf.float32)
    logits = tf.layers.dense(state, 5, name="logits", kernel_regularizer=tf.keras.regularizers.l2(1e-4))
    predictions = {"page": tf.argmax(logits, axis=1), "probabilities": tf.nn.softmax(logits)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    loss += tf.losses.get_regularization_loss()
    metrics = {
        "accuracy": tf.metrics.accuracy(labels, predictions["page"], name="accuracy"),
        "top_2": top_k(labels, logits, 2),
        "by_class": tf.metrics.mean_per_class_accuracy(labels, predictions["page"], 5),
    }
    tf.summary.scalar("train_accuracy", metrics["accuracy"][1])
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, predictions, loss, eval_metric_ops=metrics)
    with tf.variable_scope("optimizer"):
        optimizer = tf.train.RMSPropOptimizer(params["rate"], momentum=0.5)
        train_op = tf.group(
            optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step()),
            *tf.get_collection(tf.GraphKeys.UPDATE_OPS),
        )
    scaffold = tf.train.Scaffold(saver=tf.train.Saver(max_to_keep=2))
    return tf.estimator.EstimatorSpec(mode, predictions, loss, train_op, scaffold=scaffold)


class Saved(tf.train.CheckpointSaverListener):
    """Notes the steps at which checkpoints were saved."""

    def __init__(self):
        self.steps = []

    def after_save(self, session, global_step_value):
        self.steps.append(global_step_value)


def main():
    tf.logging.set_verbosity(tf.logging.WARN)
    folder = os.environ.get("MODEL_DIR") or tempfile.mkdtemp()
    params = {"sizes": Sizes(8, 16), "batch": 32, "rate": 0.01}
    modes = tf.estimator.ModeKeys
    config = tf.estimator.RunConfig(folder, tf_random_seed=5, save_checkpoints_steps=40)
    model = tf.estimator.Estimator(model_fn, params=params, config=config)
    listener = Saved()

    def test_input():
        return input_fn(2, 200, modes.EVAL, params)

    train = tf.estimator.TrainSpec(
        lambda: input_fn(1, 400, modes.TRAIN, params), max_steps=120, saving_listeners=[listener]
    )
    tf.estimator.train_and_evaluate(
        model, train, tf.estimator.EvalSpec(test_input, steps=None, throttle_secs=0)
    )
    if not config.is_chief or config.task_type == "ps":
        return
    metrics = model.evaluate(test_input)
    assert metrics["accuracy"] > 0.7 and metrics["top_2"] >= metrics["accuracy"], metrics
    assert np.shape(metrics["by_class"]) == (), metrics
    assert listener.steps[-1] == 120, listener.steps
    again = tf.estimator.Estimator(
        model_fn,
        tempfile.mkdtemp(),
        params=dict(params, rate=0.0),
        warm_start_from=tf.estimator.WarmStartSettings(folder, vars_to_warm_start=["embed", "rnn", "logits"]),
        config=tf.estimator.RunConfig(tf_random_seed=6) if not config.num_ps_replicas else None,
    )
    if not config.num_ps_replicas:
        again.train(lambda: input_fn(1, 400, modes.TRAIN, params), steps=1)
        same = again.evaluate(test_input)
        assert abs(same["accuracy"] - metrics["accuracy"]) < 1e-6, (same, metrics)
    print("ok")


if __name__ == "__main__":
    main()
