"""Iterators of ``ImageDataGenerator`` have ``next()``, which Keras 3 has as ``next(iterator)`` only.

Source: keras/src/preprocessing/image.py of Keras 2.15, ``Iterator.next``.
"""

from muster import keras
from muster_tensorflow.patches import change


def patch() -> None:
    """Give the iterators their method."""
    iterator = keras.src.legacy.preprocessing.image.Iterator
    change(iterator, "next", iterator.__next__)
