"""``tf.distribute.RunOptions``."""

from typing import NamedTuple


class RunOptions(NamedTuple):
    """Options that ``Strategy.run`` accepts and ignores: it traces functions for each shape.

    Source: tensorflow/python/distribute/distribute_lib.py, ``RunOptions``.
    """

    experimental_enable_dynamic_batch_size: bool = True
    experimental_bucketizing_dynamic_shape: bool = False
    experimental_xla_options: object = None
