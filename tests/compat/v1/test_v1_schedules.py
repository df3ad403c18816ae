"""The learning rates of ``tf.compat.v1.train``."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import muster.compat.tensorflow as tf
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
