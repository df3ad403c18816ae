"""Errors of TensorFlow that programs raise themselves.

Source: tensorflow/python/framework/errors_impl.py.
"""

from muster import MusterError


class _RaisedError(MusterError):
    """An error of TensorFlow that muster does not raise.

    Args:
        node_def: Kept, and unused else.
        op: Likewise.
        message: What happened.
        *args: Unused.
    """

    def __init__(self, node_def: object, op: object, message: str, *args: object) -> None:
        super().__init__(message)
        self.node_def, self.op = node_def, op

    def __reduce__(self) -> tuple[type["_RaisedError"], tuple[object, object, str]]:
        return type(self), (self.node_def, self.op, self.message)


class AbortedError(_RaisedError):
    """Something was given up."""

    error_code = 10


class DataLossError(_RaisedError):
    """Data is lost or damaged."""

    error_code = 15


class DeadlineExceededError(_RaisedError):
    """Something took too long."""

    error_code = 4


class FailedPreconditionError(_RaisedError):
    """Something is not in the state that is needed."""

    error_code = 9


class InternalError(_RaisedError):
    """Something in the system is wrong."""

    error_code = 13


class UnauthenticatedError(_RaisedError):
    """It is not known who asks."""

    error_code = 16


class UnimplementedError(_RaisedError):
    """Something is not there yet."""

    error_code = 12


class UnknownError(_RaisedError):
    """Any other error."""
