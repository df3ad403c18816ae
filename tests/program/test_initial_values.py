"""Initial values: Keras' own, concrete while something is traced, in buffers of their own."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from muster._keras import keras
from muster.program._initial_values import initial_value

INITIALIZERS = [
    keras.initializers.GlorotUniform(seed=3),
    keras.initializers.TruncatedNormal(seed=3),
    keras.initializers.Orthogonal(seed=3),
    keras.initializers.Zeros(),
    keras.initializers.Constant(0.5),
]


@pytest.mark.parametrize("initializer", INITIALIZERS, ids=lambda each: type(each).__name__)
def test_values_are_those_of_keras_also_in_a_trace(initializer: Any) -> None:
    taken: list[Any] = []

    def traced(x: Any) -> Any:
        taken.append(initial_value(initializer, (4, 3), "float32"))
        return x

    jax.make_jaxpr(traced)(1.0)
    expected = np.asarray(initializer((4, 3), dtype="float32"))
    assert not isinstance(taken[0], jax.core.Tracer)
    np.testing.assert_allclose(np.asarray(taken[0]), expected, rtol=1e-5, atol=1e-6)


def test_what_an_initializer_does_when_called_it_does_each_time() -> None:
    drawn = iter([1.0, 2.0])

    def initializer(shape: tuple[int, ...], dtype: str) -> Any:
        return np.full(shape, next(drawn), dtype)

    assert [float(initial_value(initializer, (1,), "float32")[0]) for _ in range(2)] == [1.0, 2.0]


def test_a_shared_array_is_copied() -> None:
    shared = jnp.ones(3)
    value = initial_value(lambda shape, dtype: shared, (3,), "float32")
    assert value.unsafe_buffer_pointer() != shared.unsafe_buffer_pointer()
