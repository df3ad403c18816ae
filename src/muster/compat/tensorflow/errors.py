"""``tf.errors``: the error of an iterator at its end, and those of a coordinator's functions."""

from muster._errors import CancelledError as CancelledError
from muster._errors import OutOfRangeError as OutOfRangeError
from muster._errors import RosterError as UnavailableError  # noqa: F401
