"""Initial values equal Keras', are concrete even while something is traced, and may be donated."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from muster._keras import keras
from muster.program.variables._initial_values import donatable_copy, initial_value

INITIALIZERS = [
    keras.initializers.GlorotUniform(seed=3),
    keras.initializers.TruncatedNormal(seed=3),
    keras.initializers.Orthogonal(seed=3),
    keras.initializers.Zeros(),
    keras.initializers.Ones(),
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


@pytest.mark.parametrize("class_", [keras.initializers.HeNormal, keras.initializers.RandomUniform])
def test_layers_of_one_shape_share_a_program_and_not_their_numbers(
    class_: Any, compilations: list[str]
) -> None:
    shape = (7, 5) if class_ is keras.initializers.HeNormal else (5, 7)
    initial_value(class_(seed=1), shape, "float32")
    assert compilations
    compilations.clear()
    second = initial_value(class_(seed=2), shape, "float32")
    assert not compilations
    expected = class_(seed=2)(shape, dtype="float32")
    np.testing.assert_allclose(np.asarray(second), np.asarray(expected), rtol=1e-5, atol=1e-6)


def test_other_settings_are_another_program() -> None:
    wide, narrow = (
        initial_value(keras.initializers.RandomNormal(stddev=stddev, seed=1), (6, 6), "float32")
        for stddev in (10.0, 0.1)
    )
    np.testing.assert_allclose(np.asarray(wide), np.asarray(narrow) * 100, rtol=1e-4)


@pytest.mark.parametrize("value", [np.ones((3, 11), np.float64), jnp.ones((3, 11)), [[2]], 2])
def test_copies_and_filled_arrays_need_no_program(value: Any, compilations: list[str]) -> None:
    compilations.clear()
    taken: list[Any] = []

    def traced(x: Any) -> Any:
        taken.append(donatable_copy(value, "float32"))
        taken.append(initial_value(keras.initializers.Zeros(), (3, 11), "float32"))
        return x

    jax.make_jaxpr(traced)(1.0)
    assert not compilations
    assert all(str(each.dtype) == "float32" for each in taken)
    np.testing.assert_array_equal(np.asarray(taken[0]), np.asarray(value, np.float32))


def test_an_array_of_another_dtype_is_converted() -> None:
    assert donatable_copy(jnp.arange(3), "bfloat16").dtype == jnp.bfloat16
    assert donatable_copy([1.5, 2.5], "bfloat16").dtype == jnp.bfloat16


def test_what_is_copied_may_be_overwritten() -> None:
    known = np.ones((4, 4), np.float32)
    jax.jit(lambda x: x + 1, donate_argnums=0)(donatable_copy(known, "float32")).block_until_ready()
    assert (known == 1).all()
