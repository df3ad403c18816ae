"""``tf.errors``: its base class, what errors know, and numbers of conditions."""

import pickle

import jax
import jax.numpy as jnp
import pytest

import muster_tensorflow as tf

RAISED = {
    "AbortedError": 10,
    "DataLossError": 15,
    "DeadlineExceededError": 4,
    "FailedPreconditionError": 9,
    "InternalError": 13,
    "UnauthenticatedError": 16,
    "UnimplementedError": 12,
    "UnknownError": 2,
}


@pytest.mark.parametrize("name", RAISED)
def test_errors_that_programs_raise(name):
    with pytest.raises(tf.errors.OpError, match="^it went wrong$") as raised:
        raise getattr(tf.errors, name)(None, "op", "it went wrong")
    error = pickle.loads(pickle.dumps(raised.value))
    assert (error.message, error.error_code) == ("it went wrong", RAISED[name])
    assert (error.op, error.node_def) == ("op", None)


def test_errors_of_muster_have_the_same_base():
    with pytest.raises(tf.errors.OpError) as raised:
        iter(tf.data.Dataset.range(0)).get_next()
    assert raised.value.error_code == tf.errors.OUT_OF_RANGE == 11
    assert raised.value.message == str(raised.value)
    assert (raised.value.op, raised.value.node_def) == (None, None)
    assert tf.errors.UnavailableError("lost").error_code == tf.errors.UNAVAILABLE == 14
    assert tf.errors.CancelledError("no").error_code == tf.errors.CANCELLED == 1


def test_numbers_of_conditions():
    names = ("OK", "UNKNOWN", "INVALID_ARGUMENT", "NOT_FOUND", "DATA_LOSS", "UNAUTHENTICATED")
    assert [getattr(tf.errors, name) for name in names] == [0, 2, 3, 5, 15, 16]


def test_a_condition_on_what_is_being_traced():
    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError):
        jax.jit(lambda x: 1 if x else 2)(jnp.ones(()))
