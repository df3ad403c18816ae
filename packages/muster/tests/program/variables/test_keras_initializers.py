"""Keras' initializers make the same bits as without muster, compile little, and can be traced as before."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from muster._keras import keras
from muster.program.variables._keras_initializers import random_bits

initializers = keras.initializers
# Each initializer, and what Keras computes for it where muster changes nothing.
DRAWS: dict[Any, Callable[..., Any]] = {
    initializers.RandomUniform(-0.3, 1.1, seed=3): lambda *a: keras.random.uniform(a[0], -0.3, 1.1, *a[1:]),
    initializers.RandomNormal(0.5, 2.0, seed=3): lambda *a: keras.random.normal(a[0], 0.5, 2.0, *a[1:]),
    initializers.TruncatedNormal(seed=3): lambda *a: keras.random.truncated_normal(a[0], 0.0, 0.05, *a[1:]),
}
draws = pytest.mark.parametrize(
    ("initializer", "by_keras"), DRAWS.items(), ids=[type(each).__name__ for each in DRAWS]
)


def same_bits(value: jax.Array, expected: jax.Array) -> bool:
    return (value.dtype, value.weak_type, value.committed) == (
        expected.dtype,
        expected.weak_type,
        expected.committed,
    ) and np.asarray(value).tobytes() == np.asarray(expected).tobytes()


@pytest.mark.parametrize("key", [[0, 0], [7, 0], [2**32 - 1, 123]])
def test_bits_are_those_of_jax(key: list[int]) -> None:
    drawn = jax.random.bits(np.array(key, np.uint32), (8197,))
    np.testing.assert_array_equal(random_bits(key, 8197), drawn)


@draws
def test_draws_have_the_bits_of_keras(initializer: Any, by_keras: Callable[..., Any]) -> None:
    assert same_bits(initializer((3, 3, 2, 5)), by_keras((3, 3, 2, 5), "float32", 3))


@pytest.mark.parametrize(
    ("shape", "dtype"), [((), "float32"), ((0, 3), "float32"), ((4,), "bfloat16"), ((4,), "float16")]
)
def test_what_jax_draws_alone_is_left_to_it(shape: tuple[int, ...], dtype: str) -> None:
    value = initializers.RandomNormal(0.5, 2.0, seed=3)(shape, dtype=dtype)
    assert same_bits(value, keras.random.normal(shape, 0.5, 2.0, dtype, 3))


def test_a_generator_of_the_users_kind_is_left_to_jax() -> None:
    with jax.default_prng_impl("rbg"):
        expected = jax.random.uniform(np.array([3, 0, 3, 0], np.uint32), (4,))
        generator = keras.random.SeedGenerator(3)
        generator.next = lambda ordered=True: jax.numpy.array([3, 0, 3, 0], "uint32")
        assert same_bits(initializers.RandomUniform(0.0, 1.0, seed=generator)((4,)), expected)


def test_each_draw_takes_one_seed_of_a_generator() -> None:
    ours, theirs = keras.random.SeedGenerator(5), keras.random.SeedGenerator(5)
    initializer = initializers.RandomUniform(0.0, 1.0, seed=ours)
    for _ in range(2):
        assert same_bits(initializer((6,)), keras.random.uniform((6,), seed=theirs))


@draws
def test_in_a_trace_the_program_draws(initializer: Any, by_keras: Callable[..., Any]) -> None:
    closed = jax.make_jaxpr(lambda: initializer((40, 30)))()
    assert sum(np.size(each) for each in closed.consts) <= 2
    same = jax.make_jaxpr(lambda: by_keras((40, 30), "float32", 3))()
    assert str(closed.jaxpr) == str(same.jaxpr)


@pytest.mark.parametrize("initializer", [initializers.Zeros(), initializers.Ones()])
def test_zeros_and_ones_compile_nothing_outside_of_traces(initializer: Any, compilations: list[str]) -> None:
    compilations.clear()
    value = initializer((3, 17))
    assert not compilations
    number = type(initializer) is initializers.Ones
    assert same_bits(value, jax.numpy.full((3, 17), float(number), "float32"))
    assert not jax.make_jaxpr(lambda: initializer((3, 17)))().consts
    assert initializer((2,), dtype="int8").tolist() == [number] * 2
