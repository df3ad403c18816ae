"""``tf.debugging``: checks of known values raise, and those of a step are said to be none."""

import logging

import numpy as np
import pytest

import muster_tensorflow as tf

HOLDS = [
    (tf.debugging.assert_equal, (1, 1), (1, 2)),
    (tf.debugging.assert_none_equal, (1, 2), (1, 1)),
    (tf.debugging.assert_greater, (2, 1), (1, 1)),
    (tf.debugging.assert_greater_equal, (1, 1), (0, 1)),
    (tf.debugging.assert_less, (0, 1), (1, 1)),
    (tf.debugging.assert_less_equal, (1, 1), (2, 1)),
    (tf.debugging.assert_near, (1.0, 1.0 + 1e-7), (1.0, 1.1)),
    (tf.debugging.assert_positive, (1,), (0,)),
    (tf.debugging.assert_negative, (-1,), (0,)),
    (tf.debugging.assert_non_negative, (0,), (-1,)),
    (tf.debugging.assert_non_positive, (0,), (1,)),
    (tf.debugging.assert_rank, (np.ones(2), 1), (np.ones(2), 2)),
    (tf.debugging.assert_rank_at_least, (np.ones(2), 1), (np.ones(2), 2)),
    (tf.debugging.assert_rank_in, (np.ones(2), [0, 1]), (np.ones(2), [2])),
    (tf.debugging.assert_scalar, (3,), ([3],)),
    (tf.debugging.Assert, (True, [1]), (False, [1])),
    (tf.debugging.check_numerics, (1.0, "x"), (np.nan, "x")),
]


@pytest.mark.parametrize(("check", "right", "wrong"), HOLDS, ids=[each[0].__name__ for each in HOLDS])
def test_known_values_are_checked(check, right, wrong):
    check(*right)
    with pytest.raises(ValueError, match=f"tf.debugging.{check.__name__}: .* got"):
        check(*wrong)


def test_messages_come_first():
    with pytest.raises(ValueError, match=r"^Too small tf.debugging.assert_greater: x is greater than y"):
        tf.debugging.assert_greater([1, 2], 1, message="Too small")


def test_shapes_agree():
    tf.debugging.assert_shapes([(np.ones((2, 3)), ("N", 3)), (np.ones(2), ("N",))])
    with pytest.raises(ValueError, match="the shape is"):
        tf.debugging.assert_shapes([(np.ones((2, 3)), ("N", 3)), (np.ones(4), ("N",))])


def test_types_agree():
    tf.debugging.assert_type(np.ones(2, np.float32), tf.float32)
    with pytest.raises(TypeError, match="float32 is needed, got int"):
        tf.debugging.assert_type(np.ones(2, np.int32), tf.float32)


def test_kinds_of_dtypes():
    tf.debugging.assert_integer(np.ones(2, np.uint8))
    with pytest.raises(TypeError, match="Ids: .*integers are needed, got float32"):
        tf.debugging.assert_integer(np.ones(2, np.float32), "Ids:")
    values = (tf.constant(1), tf.Variable(1.0), tf.constant(True), tf.constant("a"), 1)
    assert [tf.debugging.is_numeric_tensor(value) for value in values] == [True, True, False, False, False]


def test_all_finite():
    assert tf.debugging.assert_all_finite(tf.constant([1.0]), "weights").numpy().tolist() == [1]
    with pytest.raises(ValueError, match="weights .*finite everywhere, got"):
        tf.debugging.assert_all_finite(tf.constant([np.nan]), "weights")


def test_shapes_are_checked_in_a_step_and_values_are_said_not_to_be(caplog):
    @tf.function
    def checked(x):
        tf.debugging.assert_equal(tf.shape(x)[-1], 3)
        with caplog.at_level(logging.WARNING):
            return tf.debugging.check_numerics(x, "x")

    checked(np.ones(3))
    assert "tf.debugging.check_numerics was given values that a compiled step computes" in caplog.text
    with pytest.raises(ValueError, match="assert_equal"):
        checked(np.ones(2))
