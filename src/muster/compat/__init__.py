"""The names that TensorFlow programs use, so that changing the import line is enough.

``import muster.compat.tensorflow as tf`` and ``import muster.compat.tensorflow_datasets as tfds``. The folder
``tensorflow`` is laid out as TensorFlow's names are and holds nothing but names; what they stand for is in
the library, and, where only TensorFlow's programs need it, in the modules beside it.
"""
