"""Losses of sampled classes. The numbers are TensorFlow 2.15's."""

import jax
import numpy as np
import pytest

import muster_tensorflow as tf
from muster import estimator

v1 = tf.compat.v1
RANDOM = np.random.RandomState(0)
WEIGHTS = RANDOM.randn(20, 5).astype(np.float32)
BIASES = RANDOM.randn(20).astype(np.float32)
INPUTS = RANDOM.randn(3, 5).astype(np.float32)
SAMPLED = [4, 0, 13, 9]
SAMPLED_COUNTS = np.array([0.25, 0.9, 0.1, 0.2], np.float32)
CASES = {
    1: ([[1], [4], [7]], [[0.5], [0.25], [0.3]]),
    2: ([[1, 2], [4, 9], [7, 0]], [[0.5, 0.1], [0.25, 0.2], [0.3, 0.4]]),
}


@pytest.mark.parametrize(
    ("loss", "num_true", "remove", "expected"),
    [
        ("nce_loss", 1, False, [14.206155776977539, 17.391345977783203, 7.532925605773926]),
        ("nce_loss", 1, True, [14.206155776977539, 14.963740348815918, 7.532925605773926]),
        ("nce_loss", 2, False, [13.655375480651855, 20.561084747314453, 8.412175178527832]),
        ("nce_loss", 2, True, [13.655375480651855, 14.147974014282227, 8.079607009887695]),
        ("sampled_softmax_loss", 1, False, [7.8019890785217285, 3.959953784942627, 3.315938711166382]),
        ("sampled_softmax_loss", 1, True, [7.8019890785217285, 3.9407055377960205, 3.315938711166382]),
        ("sampled_softmax_loss", 2, False, [6.754425048828125, 3.2371768951416016, 3.5818588733673096]),
        ("sampled_softmax_loss", 2, True, [6.754425048828125, 3.1249401569366455, 3.5721216201782227]),
    ],
)
def test_losses_of_given_samples(loss, num_true, remove, expected):
    labels, counts = CASES[num_true]
    sampled = (SAMPLED, np.array(counts, np.float32), SAMPLED_COUNTS)
    arguments = (tf.Variable(WEIGHTS), BIASES, np.array(labels), INPUTS, 4, 20, num_true, sampled, remove)
    for module in (tf.nn, v1.nn):
        np.testing.assert_allclose(getattr(module, loss)(*arguments), expected, rtol=1e-5)


# How often 20 classes are among 6, and how often 1, 4 and 7 are expected, in the mean of 3000 samples.
@pytest.mark.parametrize(
    ("sampler", "unique", "drawn", "expected"),
    [
        (
            "log_uniform",
            False,
            [
                *(1.33, 0.811, 0.563, 0.432, 0.367, 0.301, 0.281, 0.229, 0.198, 0.199, 0.169, 0.164, 0.154),
                *(0.147, 0.117, 0.124, 0.109, 0.113, 0.103, 0.091),
            ],
            [0.7991, 0.3593, 0.2321],
        ),
        (
            "log_uniform",
            True,
            [
                *(0.853, 0.687, 0.534, 0.477, 0.398, 0.348, 0.309, 0.288, 0.246, 0.229, 0.221, 0.205, 0.191),
                *(0.168, 0.161, 0.155, 0.144, 0.136, 0.129, 0.12),
            ],
            [0.7248, 0.4018, 0.2774],
        ),
        ("uniform", False, [0.3] * 20, [0.3] * 3),
        ("uniform", True, [0.3] * 20, [0.3132] * 3),
        (
            "fixed_unigram",
            False,
            [
                *(0.044, 0.098, 0.115, 0.136, 0.179, 0.207, 0.234, 0.258, 0.282, 0.287, 0.339, 0.336, 0.365),
                *(0.388, 0.407, 0.445, 0.439, 0.467, 0.479, 0.495),
            ],
            [0.0895, 0.178, 0.2532],
        ),
        (
            "fixed_unigram",
            True,
            [
                *(0.058, 0.097, 0.137, 0.175, 0.198, 0.212, 0.252, 0.274, 0.276, 0.316, 0.32, 0.351, 0.368),
                *(0.391, 0.395, 0.423, 0.426, 0.422, 0.454, 0.456),
            ],
            [0.1031, 0.1981, 0.2739],
        ),
    ],
)
def test_samplers_draw_as_often_as_tensorflow(sampler, unique, drawn, expected):
    options = {"unigrams": range(1, 21), "distortion": 0.75} if sampler == "fixed_unigram" else {}
    sample = getattr(tf.random, f"{sampler}_candidate_sampler")

    @tf.function
    def draw():
        return sample(np.array([[1], [4], [7]]), 1, 6, unique, 20, **options)

    tf.random.set_seed(1)
    samples = [draw() for _ in range(2000)]
    ids = np.array([each.sampled_candidates for each in samples])
    assert ids.min() >= 0
    if unique:
        assert all(len(set(row)) == 6 for row in ids.tolist())
    np.testing.assert_allclose(np.bincount(ids.ravel(), minlength=20) / 2000, drawn, atol=0.06)
    counts = np.mean([each.true_expected_count for each in samples], axis=0)
    np.testing.assert_allclose(counts[:, 0], expected, atol=0.01)


def test_samplers_in_eager_code(tmp_path):
    tf.random.set_seed(1)
    one = tf.random.uniform_candidate_sampler([[1]], 1, 3, True, 3)
    assert sorted(one.sampled_candidates.tolist()) == [0, 1, 2]
    assert one.sampled_expected_count.shape == (3,)
    with pytest.raises(ValueError, match="range is too small: 4 different classes of 3"):
        tf.random.log_uniform_candidate_sampler([[1]], 1, 4, True, 3)
    file = tmp_path / "vocabulary.csv"
    file.write_text("a,0\nb,5\n\n")
    sampler = tf.random.fixed_unigram_candidate_sampler
    only = sampler([[2]], 1, 4, False, 3, vocab_file=str(file), num_reserved_ids=1)
    assert only.sampled_candidates.tolist() == [2] * 4
    with pytest.raises(ValueError, match="4 classes, and 2 frequencies"):
        sampler([[2]], 1, 4, False, 4, unigrams=[1, 2])
    with pytest.raises(ValueError, match="not sharded"):
        sampler([[0]], 1, 1, False, 2, unigrams=[1, 2], num_shards=2)


@pytest.mark.parametrize("loss", ["nce_loss", "sampled_softmax_loss"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_model_learns_which_words_are_neighbours(loss, replicas, tmp_path):
    words = np.arange(400) % 20

    def model_fn(features, labels, mode):
        table = v1.get_variable("embeddings", [20, 8])
        weights = v1.get_variable("weights", [20, 8], initializer=v1.truncated_normal_initializer(stddev=0.3))
        biases = v1.get_variable("biases", [20], initializer=v1.zeros_initializer())
        inputs = tf.nn.embedding_lookup(table, features["word"])
        losses = getattr(v1.nn, loss)(weights, biases, labels[:, None], inputs, num_sampled=5, num_classes=20)
        logits = tf.matmul(inputs, weights, transpose_b=True) + biases
        accuracy = v1.metrics.accuracy(labels, tf.argmax(logits, 1))
        train_op = v1.train.AdagradOptimizer(0.5).minimize(tf.reduce_mean(losses), v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(
            mode, loss=tf.reduce_mean(losses), train_op=train_op, eval_metric_ops={"accuracy": accuracy}
        )

    strategy = None if replicas == 1 else tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    config = tf.estimator.RunConfig(tf_random_seed=1, train_distribute=strategy)
    trained = estimator.Estimator(model_fn, str(tmp_path), config)
    input_fn = v1.estimator.inputs.numpy_input_fn({"word": words}, (words + 1) % 20, 40, None, shuffle=False)
    trained.train(input_fn, steps=200)
    assert trained.evaluate(input_fn, steps=1)["accuracy"] > 0.9


def test_gradients_pass_the_sampler():
    gradient = jax.grad(
        lambda weights: tf.nn.sampled_softmax_loss(
            weights, BIASES, np.array([[1], [4], [7]]), INPUTS, 4, 20, seed=1
        ).sum()
    )(WEIGHTS)
    assert np.abs(np.asarray(gradient)[[1, 4, 7]]).min() > 0
