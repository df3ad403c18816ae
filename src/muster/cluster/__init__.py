"""Who is in the job: the cluster, ``TF_CONFIG``, and the resolvers that find out. Standard library only."""

from ._cluster_spec import ClusterSpec as ClusterSpec
from ._placement import Placement as Placement
from ._placement import placement as placement
from ._resolver import ClusterResolver as ClusterResolver
from ._simple_resolver import SimpleClusterResolver as SimpleClusterResolver
from ._task import Task as Task
from ._task import TaskType as TaskType
from ._tf_config import TFConfig as TFConfig
from ._tf_config_resolver import TFConfigClusterResolver as TFConfigClusterResolver
