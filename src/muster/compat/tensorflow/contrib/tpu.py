"""``tf.contrib.tpu``."""

from muster.compat.v1.tpu import InputPipelineConfig as InputPipelineConfig
from muster.compat.v1.tpu import TPUConfig as TPUConfig
from muster.compat.v1.tpu import TPUEstimator as TPUEstimator
from muster.compat.v1.tpu import TPUEstimatorSpec as TPUEstimatorSpec
from muster.compat.v1.tpu import TPURunConfig as RunConfig
from muster.compat.v1.tpu import cross_replica_sum as cross_replica_sum
from muster.compat.v1.tpu import cross_shard_optimizer as CrossShardOptimizer
from muster.compat.v2.config import initialize_tpu_system as initialize_system
from muster.compat.v2.config import shutdown_tpu_system as shutdown_system
