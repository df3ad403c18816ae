"""The names that TensorFlow programs use, so that changing the import line is enough.

``import muster.compat.tensorflow as tf`` and ``import muster.compat.tensorflow_datasets as tfds``. The folder
``tensorflow`` is laid out as TensorFlow is and holds nothing but names. They stand for other packages of the
library, and for what only TensorFlow programs need: operations in ``ops``, the rest in ``v1`` and ``v2``.
"""
