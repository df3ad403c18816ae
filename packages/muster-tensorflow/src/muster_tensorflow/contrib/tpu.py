"""``tf.contrib.tpu``."""

from muster_tensorflow.programs.v1.tpu import InputPipelineConfig as InputPipelineConfig
from muster_tensorflow.programs.v1.tpu import TPUConfig as TPUConfig
from muster_tensorflow.programs.v1.tpu import TPUEstimator as TPUEstimator
from muster_tensorflow.programs.v1.tpu import TPUEstimatorSpec as TPUEstimatorSpec
from muster_tensorflow.programs.v1.tpu import TPURunConfig as RunConfig
from muster_tensorflow.programs.v1.tpu import cross_replica_sum as cross_replica_sum
from muster_tensorflow.programs.v1.tpu import cross_shard_optimizer as CrossShardOptimizer
from muster_tensorflow.programs.v2.config import initialize_tpu_system as initialize_system
from muster_tensorflow.programs.v2.config import shutdown_tpu_system as shutdown_system
