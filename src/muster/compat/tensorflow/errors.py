"""``tf.errors``: the error of an iterator at its end."""

from muster._errors import OutOfRangeError as OutOfRangeError
