"""Division towards zero, casts, samples and special functions; the values are TensorFlow's."""

from typing import Any

import jax
import numpy as np
import pytest

import muster_tensorflow as tf
from muster import TraceError

CASES: list[Any] = [
    ("saturate", lambda: tf.saturate_cast([-5.0, 3.7, 300.0, 1e9], tf.uint8), [0, 3, 255, 255]),
    ("saturate_i", lambda: tf.saturate_cast([-500, 300], tf.int8), [-128, 127]),
    ("truncatediv", lambda: tf.truncatediv([-7, 7, -8], [2, 2, 3]), [-3, 3, -2]),
    ("truncatemod", lambda: tf.truncatemod([-7, 7, -8], [2, 2, 3]), [-1, 1, -2]),
    (
        "hfwb",
        lambda: tf.histogram_fixed_width_bins([-1.0, 0.0, 1.5, 2.0, 5.0, 15.0], [0.0, 5.0], nbins=5),
        [0, 0, 1, 2, 4, 4],
    ),
    ("recnn", lambda: tf.math.reciprocal_no_nan([2.0, 0.0, 4.0]), [0.5, 0, 0.25]),
    (
        "sobol_skip",
        lambda: tf.math.sobol_sample(2, 3, skip=2),
        [[0.25, 0.75], [0.375, 0.375], [0.875, 0.875]],
    ),
    (
        "pads2",
        lambda: tf.required_space_to_batch_paddings([5, 6], [2, 4], base_paddings=[[1, 0], [0, 1]]),
        [[[1, 0], [0, 2]], [[0, 0], [0, 1]]],
    ),
    ("approx", lambda: tf.approx_top_k([3.0, 1.0, 2.0, 5.0], k=2), [[5, 3], [3, 0]]),
    ("amax", lambda: tf.nn.approx_max_k([[3.0, 1.0, 2.0, 5.0]], k=2), [[[5, 3]], [[3, 0]]]),
    ("amin", lambda: tf.nn.approx_min_k([[3.0, 1.0, 2.0, 5.0]], k=2), [[[1, 2]], [[1, 2]]]),
    ("stack", lambda: tf.parallel_stack([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    ("const", lambda: tf.guarantee_const([1.0]), [1.0]),
    ("truncatediv_of_floats", lambda: tf.truncatediv([-7.0, 7.0], [2.0, 2.0]), [-3, 3]),
]
X = np.array([0.3, 1.0, 2.5, 7.0], np.float32)
# The values of functions at X, and their derivatives there.
SPECIAL = {
    "bessel_j0": ([0.977626, 0.765198, -0.0483838, 0.300079], [-0.148319, -0.440051, -0.497094, 0.00468279]),
    "bessel_j1": ([0.148319, 0.440051, 0.497094, -0.00468279], [0.48323, 0.325147, -0.247221, 0.300748]),
    "bessel_k0": (
        [1.37246, 0.421024, 0.0623476, 0.000424796],
        [-3.05599, -0.601907, -0.0738908, -0.000454183],
    ),
    "bessel_k0e": ([1.85263, 1.14446, 0.759549, 0.465845], [-2.27253, -0.491691, -0.140626, -0.0322264]),
    "bessel_k1": (
        [3.05599, 0.601907, 0.0738908, 0.000454183],
        [-11.5591, -1.02293, -0.0919039, -0.000489679],
    ),
    "bessel_k1e": ([4.12516, 1.63615, 0.900174, 0.498072], [-11.478, -1.14446, -0.219444, -0.0389266]),
    "bessel_y0": ([-0.807274, 0.088257, 0.49807, -0.0259497], [2.29311, 0.781213, -0.145918, 0.302667]),
    "bessel_y1": ([-2.29311, -0.781213, 0.145918, -0.302667], [6.83641, 0.86947, 0.439703, 0.0172885]),
    "dawsn": ([0.282632, 0.53808, 0.223084, 0.072181], [0.830421, -0.076159, -0.115418, -0.0105337]),
    "expint": ([-0.302669, 1.89512, 7.07377, 191.505], [4.49953, 2.71828, 4.873, 156.662]),
    "fresnel_cos": (
        [0.299401, 0.779893, 0.457413, 0.545467],
        [0.990024, -4.37114e-08, -0.923879, -4.64525e-06],
    ),
    "fresnel_sin": ([0.014117, 0.438259, 0.619182, 0.499705], [0.140901, 1.0, -0.382684, 1.0]),
    "spence": ([0.889378, 0.0, -1.14738, -3.08994], [-1.71996, -1.0, -0.610861, -0.324318]),
}


@pytest.mark.parametrize(("call", "expect"), [each[1:] for each in CASES], ids=[each[0] for each in CASES])
def test_values(call: Any, expect: Any) -> None:
    found = call()
    for own, wanted in zip(found, expect, strict=True):
        np.testing.assert_allclose(own, wanted, rtol=1e-5)


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions(name: str) -> None:
    values, derivatives = SPECIAL[name]
    function = getattr(tf.math.special, name)
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    np.testing.assert_allclose(y, values, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(tape.gradient(y, x), derivatives, rtol=1e-4, atol=2e-5)


def test_special_functions_in_a_step() -> None:
    np.testing.assert_allclose(tf.function(tf.math.special.dawsn)(X), SPECIAL["dawsn"][0], rtol=1e-4)


def test_a_permutation_of_indices() -> None:
    places = [int(tf.random_index_shuffle(each, [5, 9, 1], 10)) for each in range(11)]
    assert sorted(places) == list(range(11))
    assert places == [int(tf.random_index_shuffle(each, [5, 9, 1], 10)) for each in range(11)]
    assert places != list(range(11))


def test_patches_of_volumes() -> None:
    volume = np.arange(27.0, dtype=np.float32).reshape(1, 3, 3, 3, 1)
    patches = tf.extract_volume_patches(volume, [1, 2, 2, 2, 1], [1, 1, 1, 1, 1], "VALID")
    np.testing.assert_array_equal(patches[0, 0, 0, 1], [1, 2, 4, 5, 10, 11, 13, 14])
    assert patches.shape == (1, 2, 2, 2, 8)


def test_the_time_is_that_of_eager_code() -> None:
    assert tf.timestamp() > 1.6e9
    with pytest.raises(TraceError, match="clock"):
        jax.jit(tf.timestamp)()
