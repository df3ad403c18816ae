"""``tf.distribute.RunOptions``."""

from typing import Any, NamedTuple


class RunOptions(NamedTuple):
    """Accepted by ``Strategy.run``: a function is traced anew for each shape, so that none has to be padded.

    Source: tensorflow/python/distribute/distribute_lib.py, ``RunOptions``.
    """

    experimental_enable_dynamic_batch_size: bool = True
    experimental_bucketizing_dynamic_shape: bool = False
    experimental_xla_options: Any = None
