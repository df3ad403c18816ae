"""Vectors of words by noise contrast: a smoothed loss, a hook that feeds a learning rate, checkpoints by name."""

import collections
import os
import random
import tempfile

import numpy as np

import muster_tensorflow.compat.v1 as tf

VOCABULARY, SIZE, TOPICS = 12, 6, 3


def corpus():
    rng = np.random.RandomState(0)
    text = []
    for _ in range(120):
        topic = rng.randint(TOPICS)
        text += ["t%d_%d" % (topic, word) for word in rng.randint(0, VOCABULARY // TOPICS, 10)]
    return text


def pairs(words, seed):
    def generate():
        rng = random.Random(seed)
        while True:
            center = rng.randrange(2, len(words) - 2)
            for offset in (-2, -1, 1, 2):
                yield words[center], [words[center + offset]]

    return generate


class LearningRateHook(tf.train.SessionRunHook):
    """Sets the learning rate of an epoch."""

    def __init__(self, rate):
        self.rate = rate

    def begin(self):
        (self.variable,) = [each for each in tf.global_variables() if each.op.name == "learning_rate"]
        self.new = tf.placeholder(tf.float32, shape=[], name="new_learning_rate")
        self.update = tf.assign(self.variable, self.new)

    def after_create_session(self, session, coord):
        session.run(self.update, feed_dict={self.new: self.rate})
        assert session.run(self.variable) == np.float32(self.rate)


def model_fn(features, labels, mode, params):
    words = tf.constant(params["vocabulary"])
    table = tf.contrib.lookup.index_table_from_tensor(words, default_value=0)
    ids = table.lookup(features["word"])
    with tf.variable_scope("embeddings"):
        start = tf.random_uniform_initializer(-1.0, 1.0, seed=1)
        vectors = tf.get_variable("table", [VOCABULARY, SIZE], initializer=start)
    if mode == tf.estimator.ModeKeys.PREDICT:
        normalized = tf.nn.l2_normalize(vectors, 1)
        similarity = tf.matmul(tf.nn.embedding_lookup(normalized, ids), normalized, transpose_b=True)
        _, nearest = tf.nn.top_k(similarity, k=VOCABULARY // TOPICS)
        return tf.estimator.EstimatorSpec(mode, {"word": features["word"], "nearest": nearest})
    of_words, targets = tf.nn.embedding_lookup(vectors, ids), table.lookup(labels)
    with tf.variable_scope("nce"):
        weights = tf.get_variable("weights", [VOCABULARY, SIZE], initializer=tf.zeros_initializer())
        biases = tf.get_variable("biases", [VOCABULARY], initializer=tf.zeros_initializer())
    if mode == tf.estimator.ModeKeys.EVAL:
        logits = tf.nn.bias_add(tf.matmul(of_words, weights, transpose_b=True), biases)
        answers = tf.squeeze(targets, 1)
        loss = tf.losses.sparse_softmax_cross_entropy(labels=answers, logits=logits)
        found = tf.cast(tf.nn.in_top_k(predictions=logits, targets=answers, k=4), tf.float32)
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"top4": tf.metrics.mean(found)})
    loss = tf.reduce_mean(
        tf.nn.nce_loss(weights, biases, targets, of_words, num_sampled=4, num_classes=VOCABULARY),
        name="nce_loss",
    )
    rate = tf.get_variable("learning_rate", [], trainable=False, initializer=tf.constant_initializer(0.0))
    step = tf.train.get_global_step()
    minimized = tf.train.AdagradOptimizer(rate).minimize(loss, global_step=step)
    averages = tf.train.ExponentialMovingAverage(0.9, num_updates=step, name="avg")
    with tf.control_dependencies([minimized]):
        train_op = averages.apply([loss])
    tf.summary.scalar("smooth_loss", averages.average(loss))

    def init_fn(scaffold, session):
        print("starts with", [each.op.name for each in tf.trainable_variables()])

    scaffold = tf.train.Scaffold(init_fn=init_fn, saver=tf.train.Saver(sharded=True, max_to_keep=5))
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, scaffold=scaffold)


def main():
    folder, words = tempfile.mkdtemp(), corpus()
    vocabulary = [word for word, _ in collections.Counter(words).most_common()]

    def input_fn(seed, batches):
        shapes = (tf.TensorShape([]), tf.TensorShape([1]))
        dataset = tf.data.Dataset.from_generator(pairs(words, seed), (tf.string, tf.string), shapes)
        return dataset.map(lambda word, near: ({"word": word}, near)).batch(64).take(batches).prefetch(1)

    config = tf.estimator.RunConfig(folder, tf_random_seed=5, save_checkpoints_steps=60)
    estimator = tf.estimator.Estimator(model_fn, config=config, params={"vocabulary": vocabulary})
    for epoch in range(2):
        hook = LearningRateHook(1.0 * 0.5**epoch)
        estimator.train(lambda seed=epoch: input_fn(seed, 60), hooks=[hook])
    losses = []
    for step in (0, 120):
        path = os.path.join(folder, "model.ckpt-%d" % step)
        found = estimator.evaluate(lambda: input_fn(9, 4), checkpoint_path=path)
        losses.append((found["loss"], found["top4"]))
    print(losses)
    assert losses[1][0] < losses[0][0] - 0.3
    assert losses[1][1] > 0.7
    assert 0 < estimator.get_variable_value("nce_loss/avg") < 10
    assert estimator.get_variable_value("learning_rate") == 0.5
    near = next(iter(estimator.predict(lambda: tf.data.Dataset.from_tensors({"word": ["t0_1"]}))))["nearest"]
    print([vocabulary[each] for each in near])
    assert sum(vocabulary[each].startswith("t0") for each in near) >= 3
    print("ok")


if __name__ == "__main__":
    main()
