"""The learning rates of ``tf.compat.v1.train``."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster_tensorflow as tf
from recorded import cases

train = tf.compat.v1.train


@pytest.mark.parametrize(
    "case",
    cases("optimizers", lambda case: case["name"].startswith("schedule/v1.")),
)
def test_schedules_are_those_of_tensorflow(case: dict[str, Any]) -> None:
    schedule = getattr(train, case["input"]["schedule"].rpartition(".")[2])
    for step, value in zip(case["input"]["steps"], case["expect"]["values"], strict=True):
        ours = schedule(global_step=jnp.int32(step), **case["input"]["kwargs"])
        np.testing.assert_allclose(ours, value, rtol=1e-5)


def test_piecewise_constant_holds_up_to_and_including_a_boundary() -> None:
    rates = [float(train.piecewise_constant(jnp.int32(x), [2, 4], [1.0, 0.5, 0.1])) for x in range(6)]
    np.testing.assert_allclose(rates, [1.0, 1.0, 1.0, 0.5, 0.5, 0.1])


def test_linear_cosine_decay_multiplies_a_line_by_a_cosine() -> None:
    done = np.minimum(np.arange(13), 10) / 10
    expected = 0.5 * ((0.25 + 1 - done) * 0.5 * (1 + np.cos(2 * np.pi * 1.5 * done)) + 0.01)
    rates = [
        train.linear_cosine_decay(0.5, jnp.int32(step), 10, num_periods=1.5, alpha=0.25, beta=0.01)
        for step in range(13)
    ]
    np.testing.assert_allclose(rates, expected, rtol=1e-5, atol=1e-6)


def test_noise_is_new_in_each_step_and_as_large_as_it_should_be() -> None:
    steps = jnp.arange(2000)
    without = jnp.stack([train.linear_cosine_decay(1.0, step, 10**9, num_periods=0.0) for step in steps[:1]])
    noisy = np.array(
        jax.vmap(
            lambda step: train.noisy_linear_cosine_decay(
                1.0, step, 10**9, initial_variance=0.25, variance_decay=0.0, num_periods=0.0
            )
        )(steps)
    )
    assert len(np.unique(noisy)) > 1900
    assert noisy.std() == pytest.approx(0.5, rel=0.1)
    assert noisy.mean() == pytest.approx(float(without[0]), abs=0.05)


def test_cosine_decay_restarts() -> None:
    rates = [
        float(train.cosine_decay_restarts(1.0, jnp.int32(step), 4, t_mul=2.0, m_mul=0.5))
        for step in (0, 2, 5, 8)
    ]
    expected = [1.0, 0.5, *(0.25 * (1 + np.cos(np.pi * (step - 4) / 8)) for step in (5, 8))]
    np.testing.assert_allclose(rates, expected, rtol=1e-4)


def test_piecewise_constant_decay_is_another_name() -> None:
    assert train.piecewise_constant_decay is train.piecewise_constant


def test_a_step_decays_by_the_natural_exponent() -> None:
    rate = jax.jit(lambda step: train.natural_exp_decay(0.1, step, 100, 0.5))(jnp.int32(50))
    np.testing.assert_allclose(rate, 0.0778801, rtol=1e-5)
