"""Restore the helpers of ``keras.applications.imagenet_utils`` for custom networks, such as ``correct_pad``.

Until 2.12 it was the module that Keras' own networks import from; later ones are in an internal module.
"""

from muster import keras
from muster_tensorflow.patches import change

_NAMES = ("correct_pad", "obtain_input_shape", "validate_activation")


def patch() -> None:
    """Add the names of the internal module."""
    for name in _NAMES:
        change(keras.applications.imagenet_utils, name, getattr(keras.src.applications.imagenet_utils, name))
