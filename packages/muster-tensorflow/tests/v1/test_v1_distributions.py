"""``tf.distributions``: densities, moments and divergences against SciPy's; samples by their moments."""

from typing import Any

import jax
import numpy as np
import pytest
import scipy.stats  # type: ignore[import-untyped]
from v1_steps import outputs_of

import muster_tensorflow.compat.v1 as tf1

made = tf1.distributions


@pytest.mark.parametrize(
    ("distribution", "same", "values"),
    [
        (made.Normal(1.0, [0.5, 2.0]), scipy.stats.norm(1.0, [0.5, 2.0]), [0.3, 4.0]),
        (made.Uniform(-1.0, [1.0, 3.0]), scipy.stats.uniform(-1, [2.0, 4.0]), [0.5, 5.0]),
        (made.Laplace(1, 2), scipy.stats.laplace(1, 2), [-0.5, 3.0]),
        (made.Gamma([2.0, 3.0], 4.0), scipy.stats.gamma([2.0, 3.0], scale=0.25), [0.5, 1.0]),
        (made.Exponential([2.0]), scipy.stats.expon(scale=[0.5]), [0.25]),
        (made.StudentT(5.0, 1.0, 2.0), scipy.stats.t(5.0, 1.0, 2.0), [0.0, 4.0]),
        (made.Beta(2.0, [3.0, 5.0]), scipy.stats.beta(2.0, [3.0, 5.0]), [0.2, 0.9]),
    ],
)
def test_distributions_of_numbers_have_the_densities_and_moments_of_scipy(
    distribution: Any, same: Any, values: list[float]
) -> None:
    at = np.array(values, np.float32)
    with np.errstate(divide="ignore"):
        expected = same.logpdf(at)
    shape = tuple(distribution.batch_shape)
    found = jax.jit(  # one compilation for all of them
        lambda at: {
            "log_prob": distribution.log_prob(at),
            "cdf": distribution.cdf(at),
            "entropy": distribution.entropy(),
            "mean": distribution.mean(),
            "stddev": distribution.stddev(),
        }
    )(at)
    np.testing.assert_allclose(found["log_prob"], expected, rtol=1e-4)
    np.testing.assert_allclose(found["cdf"], same.cdf(at), rtol=1e-4)
    for name, moment in {"entropy": same.entropy(), "mean": same.mean(), "stddev": same.std()}.items():
        assert found[name].shape == shape
        np.testing.assert_allclose(found[name], np.broadcast_to(moment, shape), rtol=1e-4)
    drawn = np.asarray(distribution.sample(20000, seed=1))
    assert drawn.shape == (20000, *shape)
    assert drawn.dtype == np.float32
    np.testing.assert_allclose(drawn.mean(0), found["mean"], atol=0.08)
    np.testing.assert_allclose(drawn.std(0), found["stddev"], rtol=0.08)


def test_classes_have_probabilities_from_logits_or_probs() -> None:
    coin = made.Bernoulli(probs=[0.25, 0.9])
    np.testing.assert_allclose(coin.prob([1, 0]), [0.25, 0.1], rtol=1e-5)
    np.testing.assert_allclose(coin.logits, np.log([1 / 3, 9]), rtol=1e-5)
    np.testing.assert_allclose(coin.entropy(), scipy.stats.bernoulli([0.25, 0.9]).entropy(), rtol=1e-5)
    assert coin.mode().tolist() == [0, 1]
    drawn = coin.sample(4000, seed=3)
    assert drawn.dtype == np.int32
    np.testing.assert_allclose(np.mean(drawn, 0), [0.25, 0.9], atol=0.03)
    dice = made.Categorical(probs=[[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(dice.prob([2, 0]), [0.5, 1.0], rtol=1e-5)
    np.testing.assert_allclose(dice.prob([[0, 0], [1, 1]]), [[0.2, 1], [0.3, 0]], rtol=1e-5)
    np.testing.assert_allclose(dice.entropy(), [1.0296530, 0], rtol=1e-5)
    drawn = dice.sample([4000], seed=3)
    assert drawn.shape == (4000, 2)
    np.testing.assert_allclose(np.bincount(drawn[:, 0]) / 4000, [0.2, 0.3, 0.5], atol=0.03)
    assert not np.any(drawn[:, 1])
    with pytest.raises(ValueError, match="probs or logits"):
        made.Categorical()
    with pytest.raises(NotImplementedError, match="mean is not implemented: Categorical"):
        dice.mean()


def test_vectors_of_probabilities_have_the_densities_of_scipy() -> None:
    vectors, same = made.Dirichlet([[1.0, 2.0, 3.0]]), scipy.stats.dirichlet([1.0, 2.0, 3.0])
    names = ("entropy", "mean", "variance", "covariance")
    prob, *found = jax.jit(lambda: [vectors.prob([0.2, 0.3, 0.5]), *(getattr(vectors, n)() for n in names)])()
    np.testing.assert_allclose(prob, [same.pdf([0.2, 0.3, 0.5])], rtol=1e-4)
    for ours, theirs in zip(found, (same.entropy(), same.mean(), same.var(), same.cov()), strict=True):
        np.testing.assert_allclose(ours, [theirs], rtol=1e-4, atol=1e-7)
    drawn = vectors.sample(5000, seed=2)
    np.testing.assert_allclose(np.sum(drawn, -1), np.ones((5000, 1)), rtol=1e-5)
    np.testing.assert_allclose(np.mean(drawn, 0), vectors.mean(), atol=0.02)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (made.Normal(0.0, 1.0), made.Normal([1.0], 2.0)),
        (made.Beta(2.0, 3.0), made.Beta(1.0, 1.5)),
        (made.Gamma(2.0, 3.0), made.Gamma(1.0, 2.0)),
        (made.Exponential(3.0), made.Exponential(1.0)),
        (made.Bernoulli(probs=0.3), made.Bernoulli(logits=1.0)),
        (made.Categorical(probs=[0.3, 0.7]), made.Categorical(logits=[0.0, 1.0])),
        (made.Dirichlet([1.0, 2.0]), made.Dirichlet([2.0, 1.5])),
    ],
)
def test_divergences_are_the_mean_difference_of_logarithms(one: Any, other: Any) -> None:
    drawn = one.sample(40000, seed=5)
    own, others, divergence = jax.jit(
        lambda x: (one.log_prob(x), other.log_prob(x), made.kl_divergence(one, other))
    )(drawn)
    np.testing.assert_allclose(divergence, np.mean(own - others, 0), atol=0.03)


def test_divergences_can_be_registered_and_missing_ones_are_errors() -> None:
    class Mine(made.Normal):
        pass

    with pytest.raises(NotImplementedError, match="type Uniform and distribution_b type Normal"):
        made.kl_divergence(made.Uniform(), made.Normal(0.0, 1.0))
    np.testing.assert_allclose(made.kl_divergence(Mine(0.0, 1.0), made.Normal(0.0, 1.0)), 0)
    made.RegisterKL(Mine, made.Normal)(lambda a, b, name=None: np.float32(7))
    assert made.kl_divergence(Mine(0.0, 1.0), made.Normal(0.0, 1.0)) == 7
    with pytest.raises(ValueError, match="divergence of Mine and Normal already"):
        made.RegisterKL(Mine, made.Normal)(lambda a, b, name=None: 0)


def test_known_parameters_are_checked_on_request() -> None:
    assert made.Normal(0.0, -1.0).copy(loc=[1.0, 2.0]).sample([2, 3]).shape == (2, 3, 2)
    with pytest.raises(ValueError, match="scale must be positive"):
        made.Normal(0.0, -1.0, validate_args=True)
    assert np.isnan(made.StudentT(1.0, 0.0, 1.0).mean())
    with pytest.raises(ValueError, match="StudentT has no mean"):
        made.StudentT(1.0, 0.0, 1.0, allow_nan_stats=False).mean()
    one, other = made.Normal(0.0, 1.0), made.Normal(1.0, 2.0)
    assert float(one.cross_entropy(other)) == pytest.approx(float(one.entropy() + one.kl_divergence(other)))


def test_a_step_differentiates_samples() -> None:
    def step(x: Any) -> dict[str, Any]:
        scale = tf1.get_variable("scale", (), initializer=tf1.ones_initializer())
        drawn = made.Normal(x, scale).sample(seed=4)
        (slope,) = tf1.gradients(drawn, [scale])
        return {"difference": drawn - slope, "slope": slope}

    found = outputs_of(step)
    assert float(found["difference"]) == pytest.approx(1.0)
    assert float(found["slope"]) != 0
