"""``tf.contrib.crf``, compared with all sequences of tags one by one."""

import itertools

import jax
import numpy as np
import pytest

import muster_tensorflow.compat.v1 as tf
from muster import estimator

crf = tf.contrib.crf
TIME, TAGS = 4, 3
LENGTHS = np.array([4, 2, 1, 0])


@pytest.fixture(name="scores")
def _scores():
    draw = np.random.default_rng(0)
    return (
        draw.normal(size=(4, TIME, TAGS)).astype(np.float32),
        draw.normal(size=(TAGS, TAGS)).astype(np.float32),
        draw.integers(0, TAGS, (4, TIME)),
    )


def score_of(inputs, transitions, tags):
    """Return the score of one sequence of tags."""
    return sum(inputs[t, tag] for t, tag in enumerate(tags)) + sum(
        transitions[one, two] for one, two in itertools.pairwise(tags)
    )


def all_scores(inputs, transitions, length):
    return {
        tags: score_of(inputs, transitions, tags) for tags in itertools.product(range(TAGS), repeat=length)
    }


def test_likelihood_is_that_of_all_sequences(scores):
    inputs, transitions, tags = scores
    likelihood, same = crf.crf_log_likelihood(inputs, tags, LENGTHS, transitions)
    assert same is transitions
    norms = crf.crf_log_norm(inputs, LENGTHS, transitions)
    found = crf.crf_sequence_score(inputs, tags, LENGTHS, transitions)
    for row, length in enumerate(LENGTHS):
        if length == 0:
            assert (norms[row], found[row], likelihood[row]) == (0, 0, 0)
            continue
        each = all_scores(inputs[row], transitions, length)
        norm = np.log(np.sum(np.exp(list(each.values()))))
        np.testing.assert_allclose(norms[row], norm, rtol=1e-5)
        np.testing.assert_allclose(found[row], each[tuple(tags[row, :length])], rtol=1e-5)
        np.testing.assert_allclose(likelihood[row], each[tuple(tags[row, :length])] - norm, rtol=1e-5)
    unary = crf.crf_unary_score(tags, LENGTHS, inputs)
    np.testing.assert_allclose(unary + crf.crf_binary_score(tags, LENGTHS, transitions), found, rtol=1e-6)


def test_decoding_finds_the_best_sequence(scores):
    inputs, transitions, _ = scores
    tags, best = jax.jit(crf.crf_decode)(inputs, transitions, LENGTHS)
    assert tags.dtype == np.int32
    for row, length in enumerate(np.maximum(LENGTHS, 1)):
        each = all_scores(inputs[row], transitions, length)
        winner = max(each, key=each.get)
        assert tags[row].tolist() == [*winner, *[0] * (TIME - length)]
        np.testing.assert_allclose(best[row], each[winner], rtol=1e-6)
        path, score = crf.viterbi_decode(inputs[row, :length], transitions)
        assert path == list(winner)
        np.testing.assert_allclose(score, each[winner], rtol=1e-6)


def test_one_step(scores):
    inputs, transitions, tags = scores
    likelihood, _ = crf.crf_log_likelihood(inputs[:, :1], tags[:, :1], [1] * 4, transitions)
    np.testing.assert_allclose(
        likelihood, jax.nn.log_softmax(inputs[:, 0])[np.arange(4), tags[:, 0]], rtol=1e-5
    )
    decoded, _ = crf.crf_decode(inputs[:, :1], transitions, [1] * 4)
    assert decoded.tolist() == inputs[:, :1].argmax(-1).tolist()


def test_a_model_learns_its_transitions(tmp_path):
    # Tags follow each other in a circle; inputs tell them only at the first step.
    starts = np.arange(96) % TAGS
    tags = (starts[:, None] + np.arange(TIME)) % TAGS
    inputs = np.zeros((96, TIME, TAGS), np.float32)
    inputs[np.arange(96), 0, starts] = 1

    def model_fn(features, labels, mode):
        logits = tf.layers.dense(features["x"], TAGS)
        lengths = tf.fill([tf.shape(logits)[0]], TIME)
        likelihood, transitions = crf.crf_log_likelihood(logits, labels, lengths)
        assert transitions.name.startswith("transitions")
        predicted, _ = crf.crf_decode(logits, transitions, lengths)
        loss = tf.reduce_mean(-likelihood)
        train_op = tf.train.AdamOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        metrics = {"accuracy": tf.metrics.accuracy(labels, predicted)}
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)

    trained = estimator.Estimator(model_fn, str(tmp_path))
    input_fn = tf.estimator.inputs.numpy_input_fn({"x": inputs}, tags, 32, None, shuffle=False)
    trained.train(input_fn, steps=60)
    assert trained.evaluate(input_fn, steps=3)["accuracy"] > 0.99
