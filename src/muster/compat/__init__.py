"""The names that TensorFlow programs use, so that changing the import line is enough.

``import muster.compat.tensorflow as tf`` and ``import muster.compat.tensorflow_datasets as tfds``. The folder
``tensorflow`` has TensorFlow's layout and holds nothing but names: of the library's other packages, and of
what only TensorFlow programs need, which is in ``ops`` (operations on arrays), ``v1`` and ``v2``.
"""
