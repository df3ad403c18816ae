"""``tf.experimental.numpy.random`` draws as NumPy's functions do, in functions too."""

import numpy as np
import pytest

import muster_tensorflow as tf
import muster_tensorflow.experimental.numpy as tnp
from muster_tensorflow.experimental.numpy.random import randn


@pytest.mark.parametrize(
    ("draw", "shape", "kind"),
    [
        (lambda: tnp.random.randn(2, 3), (2, 3), "f"),
        (lambda: tnp.random.randn(), (), "f"),
        (lambda: tnp.random.standard_normal((2,)), (2,), "f"),
        (lambda: tnp.random.rand(2, 1), (2, 1), "f"),
        (lambda: tnp.random.random(4), (4,), "f"),
        (lambda: tnp.random.uniform(1.0, 2.0, (3,)), (3,), "f"),
        (lambda: tnp.random.uniform(np.zeros(3), 2.0), (3,), "f"),
        (lambda: tnp.random.randint(5), (), "i"),
        (lambda: tnp.random.randint(2, 5, (3,)), (3,), "i"),
        (lambda: tnp.random.poisson(2.0, (3,)), (3,), "i"),
        (lambda: tnp.random.poisson([1.0, 2.0]), (2,), "i"),
    ],
)
def test_that_shapes_and_kinds_are_those_of_numpy(draw, shape, kind):
    drawn = draw()
    assert drawn.shape == shape
    assert np.dtype(drawn.dtype).kind == kind


def test_that_numbers_stay_within_their_bounds():
    numbers = np.asarray(tnp.random.randint(2, 5, (200,)))
    assert set(numbers.tolist()) == {2, 3, 4}
    numbers = np.asarray(tnp.random.uniform(3.0, 4.0, (200,)))
    assert numbers.min() >= 3.0
    assert numbers.max() < 4.0


def test_that_a_seed_makes_numbers_repeatable():
    tnp.random.seed(3)
    first = np.asarray(randn(4))
    tnp.random.seed(3)
    np.testing.assert_array_equal(first, np.asarray(randn(4)))


def test_that_a_function_draws_new_numbers_in_every_call():
    @tf.function
    def draw():
        return tnp.random.randn(3)

    assert not np.array_equal(np.asarray(draw()), np.asarray(draw()))


def test_functions_of_numpy_take_variables_and_symbolic_tensors() -> None:
    weight = tf.Variable([[1.0], [2.0]])
    assert np.asarray(tf.experimental.numpy.matmul(np.float32([[3, 4]]), weight)).tolist() == [[11]]
    assert tf.experimental.numpy.maximum(tf.keras.Input((3,)), 0.0).shape == (None, 3)
