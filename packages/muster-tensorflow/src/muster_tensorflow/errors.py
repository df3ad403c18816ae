"""``tf.errors``: TensorFlow's names for errors that muster, Python and JAX raise, and other errors."""

import jax as _jax

from muster import CancelledError as CancelledError
from muster import MusterError as OpError
from muster import OutOfRangeError as OutOfRangeError
from muster import RosterError as UnavailableError
from muster_tensorflow.programs.v2._error_classes import AbortedError as AbortedError
from muster_tensorflow.programs.v2._error_classes import DataLossError as DataLossError
from muster_tensorflow.programs.v2._error_classes import DeadlineExceededError as DeadlineExceededError
from muster_tensorflow.programs.v2._error_classes import FailedPreconditionError as FailedPreconditionError
from muster_tensorflow.programs.v2._error_classes import InternalError as InternalError
from muster_tensorflow.programs.v2._error_classes import UnauthenticatedError as UnauthenticatedError
from muster_tensorflow.programs.v2._error_classes import UnimplementedError as UnimplementedError
from muster_tensorflow.programs.v2._error_classes import UnknownError as UnknownError

AlreadyExistsError = FileExistsError
InvalidArgumentError = ValueError
NotFoundError = FileNotFoundError
OperatorNotAllowedInGraphError = _jax.errors.ConcretizationTypeError
PermissionDeniedError = PermissionError
ResourceExhaustedError = _jax.errors.JaxRuntimeError

(OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS) = range(7)
(PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE) = range(7, 12)
(UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS, UNAUTHENTICATED) = range(12, 17)
