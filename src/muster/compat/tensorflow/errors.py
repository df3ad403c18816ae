"""``tf.errors``: what an iterator raises at its end."""

from muster._errors import OutOfRangeError as OutOfRangeError
