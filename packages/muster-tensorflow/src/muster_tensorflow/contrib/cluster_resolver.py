"""``tf.contrib.cluster_resolver``."""

from muster.cluster import ClusterResolver as ClusterResolver
from muster.cluster import GCEClusterResolver as GCEClusterResolver
from muster.cluster import KubernetesClusterResolver as KubernetesClusterResolver
from muster.cluster import SimpleClusterResolver as SimpleClusterResolver
from muster.cluster import SlurmClusterResolver as SlurmClusterResolver
from muster.cluster import TFConfigClusterResolver as TFConfigClusterResolver
from muster.cluster import UnionResolver as UnionClusterResolver
from muster_tensorflow.programs.v1.tpu import TPUClusterResolver as TPUClusterResolver
