"""``tf.tpu``: initialize the TPU system before a ``TPUStrategy`` is created."""

from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.programs.v1.tpu import cross_replica_sum as cross_replica_sum
from muster_tensorflow.programs.v1.tpu import cross_shard_optimizer as CrossShardOptimizer
from muster_tensorflow.programs.v2 import config as _config

experimental = _Names(
    "tf.tpu.experimental",
    initialize_tpu_system=_config.initialize_tpu_system,
    shutdown_tpu_system=_config.shutdown_tpu_system,
)
