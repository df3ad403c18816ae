"""``tf.errors``: those of iterators at their end, of a coordinator's functions and of files."""

from muster._errors import CancelledError as CancelledError
from muster._errors import OutOfRangeError as OutOfRangeError
from muster._errors import RosterError as UnavailableError

AlreadyExistsError = FileExistsError
InvalidArgumentError = ValueError
NotFoundError = FileNotFoundError
PermissionDeniedError = PermissionError
