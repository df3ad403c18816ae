"""Sentences of word ids, classified by a convolution or an LSTM, with TensorFlow 1's layers."""

import os
import tempfile

import numpy as np

import muster_tensorflow.compat.v1 as tf

tf.keras.utils.set_random_seed(7)

VOCABULARY, EMBEDDING, LENGTH = 50, 16, 12


def sentences(count, seed):
    rng = np.random.default_rng(seed)
    x = np.zeros((count, LENGTH), np.int32)
    lengths = rng.integers(3, LENGTH + 1, count).astype(np.int32)
    y = rng.integers(0, 2, count).astype(np.int32)
    for row, length, label in zip(x, lengths, y):
        row[:length] = rng.integers(2, VOCABULARY // 2, length) + label * (VOCABULARY // 2 - 2) * (
            rng.random(length) < 0.5
        )
    return x, lengths, y


x_train, len_train, y_train = sentences(800, 0)
x_test, len_test, y_test = sentences(200, 1)


def parser(x, length, y):
    features = {"x": x, "len": length}
    return features, y


def train_input_fn():
    dataset = tf.data.Dataset.from_tensor_slices((x_train, len_train, y_train))
    dataset = dataset.shuffle(buffer_size=len(x_train))
    dataset = dataset.batch(50)
    dataset = dataset.map(parser)
    dataset = dataset.repeat()
    iterator = dataset.make_one_shot_iterator()
    return iterator.get_next()


def eval_input_fn():
    dataset = tf.data.Dataset.from_tensor_slices((x_test, len_test, y_test))
    dataset = dataset.batch(50).map(parser)
    return dataset.make_one_shot_iterator().get_next()


head = tf.contrib.estimator.binary_classification_head()


def cnn_model_fn(features, labels, mode, params):
    input_layer = tf.contrib.layers.embed_sequence(
        features["x"], VOCABULARY, EMBEDDING, initializer=params["embedding_initializer"]
    )
    training = mode == tf.estimator.ModeKeys.TRAIN
    dropout_emb = tf.layers.dropout(inputs=input_layer, rate=0.2, training=training)
    conv = tf.layers.conv1d(
        inputs=dropout_emb, filters=32, kernel_size=3, padding="same", activation=tf.nn.relu
    )
    pool = tf.reduce_max(input_tensor=conv, axis=1)
    hidden = tf.layers.dense(inputs=pool, units=32, activation=tf.nn.relu)
    dropout_hidden = tf.layers.dropout(inputs=hidden, rate=0.2, training=training)
    logits = tf.layers.dense(inputs=dropout_hidden, units=1)
    if labels is not None:
        labels = tf.reshape(labels, [-1, 1])
    optimizer = tf.train.AdamOptimizer()

    def _train_op_fn(loss):
        return optimizer.minimize(loss=loss, global_step=tf.train.get_global_step())

    return head.create_estimator_spec(
        features=features, labels=labels, mode=mode, logits=logits, train_op_fn=_train_op_fn
    )


def lstm_model_fn(features, labels, mode):
    with tf.variable_scope("embeddings"):
        table = tf.get_variable(
            "table", [VOCABULARY, EMBEDDING], initializer=tf.random_uniform_initializer(-1, 1)
        )
        inputs = tf.nn.embedding_lookup(table, features["x"])
    keep = 0.9 if mode == tf.estimator.ModeKeys.TRAIN else 1.0
    cells = [
        tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.LSTMCell(units), output_keep_prob=keep)
        for units in (16, 8)
    ]
    _, final_states = tf.nn.dynamic_rnn(
        tf.nn.rnn_cell.MultiRNNCell(cells), inputs, sequence_length=features["len"], dtype=tf.float32
    )
    outputs = final_states[-1].h
    mask = tf.sequence_mask(features["len"], LENGTH, dtype=tf.float32)
    mean = tf.reduce_sum(inputs * mask[:, :, None], 1) / tf.to_float(features["len"])[:, None]
    logits = tf.layers.dense(tf.concat([outputs, mean], axis=1), 2)
    predictions = {"classes": tf.argmax(logits, 1), "p": tf.nn.softmax(logits, name="probabilities")}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits), name="xentropy"
    )
    learning_rate = tf.train.exponential_decay(
        0.01, tf.train.get_global_step(), 100, 0.9, staircase=True, name="learning_rate"
    )
    optimizer = tf.train.AdamOptimizer(learning_rate)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    gradients, norm = tf.clip_by_global_norm(gradients, 5.0)
    tf.identity(norm, "gradient_norm")
    train_op = optimizer.apply_gradients(zip(gradients, variables), tf.train.get_global_step())
    metrics = {
        "accuracy": tf.metrics.accuracy(labels, predictions["classes"]),
        "f1": tf.contrib.metrics.f1_score(labels, predictions["p"][:, 1]),
        "at_1": tf.metrics.precision_at_k(tf.cast(labels, tf.int64), logits, 1),
    }
    return tf.estimator.EstimatorSpec(mode, predictions, loss, train_op, metrics)


class Watch(tf.train.SessionRunHook):
    """Fetches tensors by name from the graph."""

    def __init__(self):
        self.values = []

    def begin(self):
        graph = tf.get_default_graph()
        self.loss = graph.get_tensor_by_name("xentropy:0")
        self.rate = graph.get_tensor_by_name("learning_rate:0")
        self.step = tf.train.get_global_step()

    def before_run(self, run_context):
        return tf.train.SessionRunArgs([self.step, self.loss, self.rate, "gradient_norm:0"])

    def after_run(self, run_context, run_values):
        self.values.append(run_values.results)


def main(unused):
    folder = tempfile.mkdtemp()
    params = {"embedding_initializer": tf.random_uniform_initializer(-1.0, 1.0)}
    config = tf.estimator.RunConfig(tf_random_seed=7)
    cnn = tf.estimator.Estimator(cnn_model_fn, os.path.join(folder, "cnn"), params=params, config=config)
    cnn.train(train_input_fn, steps=120)
    cnn_results = cnn.evaluate(eval_input_fn)

    watch = Watch()
    lstm = tf.estimator.Estimator(lstm_model_fn, os.path.join(folder, "lstm"), config)
    lstm.train(train_input_fn, steps=120, hooks=[watch])
    results = lstm.evaluate(eval_input_fn)
    print(cnn_results, results)

    steps, losses, rates, norms = zip(*watch.values)
    assert list(steps) == list(range(1, 121))
    assert np.mean(losses[-20:]) < np.mean(losses[:20])
    assert np.isclose(rates[0], 0.01)
    assert np.isclose(rates[-1], 0.009)
    assert min(norms) > 0
    assert cnn_results["accuracy"] > 0.8
    assert results["accuracy"] > 0.8
    assert np.isclose(results["accuracy"], results["at_1"])
    assert "rnn/multi_rnn_cell/cell_0/lstm_cell/kernel" in lstm.get_variable_names()
    print("ok")


if __name__ == "__main__":
    tf.app.run(main)
