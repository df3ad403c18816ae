"""Operations of tf.nn on windows of images; the values are TensorFlow's."""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1

i8 = np.arange(32.0, dtype=np.float32).reshape(2, 4, 4, 1)

CASES: list[Any] = [
    (
        "dil",
        lambda: tf.nn.dilation2d(
            i8[:1],
            np.array([[[0.0], [1.0]], [[2.0], [0.5]]], np.float32),
            [1, 1, 1, 1],
            "SAME",
            "NHWC",
            [1, 1, 1, 1],
        ),
        [
            [
                [[6], [7], [8], [9]],
                [[10], [11], [12], [13]],
                [[14], [15], [16], [17]],
                [[14], [15], [16], [15]],
            ]
        ],
    ),
    (
        "dil2",
        lambda: tf.nn.dilation2d(
            i8[:1],
            np.array([[[0.0], [1.0]], [[2.0], [0.5]]], np.float32),
            [1, 2, 2, 1],
            "VALID",
            "NHWC",
            [1, 2, 2, 1],
        ),
        [[[[10.5]]]],
    ),
    (
        "ero",
        lambda: tf.nn.erosion2d(
            i8[:1],
            np.array([[[0.0], [1.0]], [[2.0], [0.5]]], np.float32),
            [1, 1, 1, 1],
            "SAME",
            "NHWC",
            [1, 1, 1, 1],
        ),
        [
            [
                [[-1], [0], [1], [2.5]],
                [[3], [4], [5], [6.5]],
                [[7], [8], [9], [10.5]],
                [[11], [12], [13], [14.5]],
            ]
        ],
    ),
    (
        "actr",
        lambda: tf.nn.atrous_conv2d_transpose(
            i8[:1], np.ones((2, 2, 1, 1), np.float32), [1, 6, 6, 1], 2, "VALID"
        )[0, ..., 0],
        [
            [0, 1, 2, 4, 2, 3],
            [4, 5, 10, 12, 6, 7],
            [8, 10, 20, 24, 12, 14],
            [16, 18, 36, 40, 20, 22],
            [8, 9, 18, 20, 10, 11],
            [12, 13, 26, 28, 14, 15],
        ],
    ),
    (
        "actrs",
        lambda: tf.nn.atrous_conv2d_transpose(
            i8[:1], np.arange(9, dtype=np.float32).reshape(3, 3, 1, 1), [1, 4, 4, 1], 2, "SAME"
        )[0, ..., 0],
        [[14, 22, 34, 46], [46, 54, 82, 94], [74, 94, 94, 118], [154, 174, 190, 214]],
    ),
    (
        "cbi",
        lambda: tf1.nn.conv2d_backprop_input(
            [1, 4, 4, 1],
            np.ones((2, 2, 1, 1), np.float32),
            np.ones((1, 2, 2, 1), np.float32),
            [1, 2, 2, 1],
            "VALID",
        )[0, ..., 0],
        [[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]],
    ),
    (
        "cbf",
        lambda: tf1.nn.conv2d_backprop_filter(
            i8[:1], [2, 2, 1, 1], np.ones((1, 3, 3, 1), np.float32), [1, 1, 1, 1], "VALID"
        )[..., 0, 0],
        [[45, 54], [81, 90]],
    ),
    (
        "depthwise_input",
        lambda: tf.nn.depthwise_conv2d_backprop_input(
            [1, 4, 4, 1],
            np.arange(4.0, dtype=np.float32).reshape(2, 2, 1, 1),
            np.ones((1, 3, 3, 1), np.float32),
            [1, 1, 1, 1],
            "VALID",
        )[0, ..., 0],
        [[0, 1, 1, 1], [2, 6, 6, 4], [2, 6, 6, 4], [2, 5, 5, 3]],
    ),
    (
        "depthwise_filter",
        lambda: tf.nn.depthwise_conv2d_backprop_filter(
            i8[:1], [2, 2, 1, 1], np.ones((1, 3, 3, 1), np.float32), [1, 1, 1, 1], "VALID"
        )[..., 0, 0],
        [[45, 54], [81, 90]],
    ),
]


@pytest.mark.parametrize(("call", "expect"), [each[1:] for each in CASES], ids=[each[0] for each in CASES])
def test_values_of_windows(call: Any, expect: Any) -> None:
    np.testing.assert_allclose(call(), expect, rtol=1e-5)


def test_maxima_and_their_places() -> None:
    output, places = tf.nn.max_pool_with_argmax(i8, 2, 2, "VALID")
    np.testing.assert_array_equal(output[1, ..., 0], [[21, 23], [29, 31]])
    np.testing.assert_array_equal(places[1, ..., 0], [[5, 7], [13, 15]])
    both = np.concatenate([i8, -i8], -1)
    output, places = tf.nn.max_pool_with_argmax(
        both, [1, 3, 3, 1], [1, 2, 2, 1], "SAME", include_batch_in_index=True
    )
    np.testing.assert_array_equal(output[1, 0], [[26, -16], [27, -18]])
    np.testing.assert_array_equal(places[1], [[[52, 33], [54, 37]], [[60, 49], [62, 53]]])


def test_a_transposed_convolution_of_any_rank() -> None:
    made = tf.nn.conv_transpose(i8[:1], np.ones((2, 2, 1, 1), np.float32), [1, 8, 8, 1], 2)
    np.testing.assert_array_equal(made[0, 0, :, 0], [0, 0, 1, 1, 2, 2, 3, 3])
    line = tf.nn.conv_transpose(np.ones((1, 2, 1), np.float32), np.ones((2, 1, 1), np.float32), [1, 4, 1], 2)
    np.testing.assert_array_equal(line[0, :, 0], [1, 1, 1, 1])
