"""Who is in the job: the cluster, ``TF_CONFIG``, and the resolvers that find out. Standard library only."""

from muster._errors import ClusterEnvironmentError as ClusterEnvironmentError
from muster._errors import DuplicateTaskError as DuplicateTaskError

from ._cluster_spec import ClusterSpec as ClusterSpec
from ._kubernetes_resolver import KubernetesClusterResolver as KubernetesClusterResolver
from ._placement import Placement as Placement
from ._placement import placement as placement
from ._resolver import ClusterResolver as ClusterResolver
from ._roster import EXIT_PEER_LOST as EXIT_PEER_LOST
from ._roster import Roster as Roster
from ._roster import exit_because_lost as exit_because_lost
from ._roster_address import query_status as query_status
from ._roster_address import split_address as split_address
from ._roster_identity import derive_job_id as derive_job_id
from ._roster_identity import installed_versions as installed_versions
from ._roster_identity import training_tasks as training_tasks
from ._roster_messages import Progress as Progress
from ._roster_messages import Status as Status
from ._roster_messages import TaskState as TaskState
from ._sagemaker_resolver import SageMakerClusterResolver as SageMakerClusterResolver
from ._simple_resolver import SimpleClusterResolver as SimpleClusterResolver
from ._slurm_resolver import SlurmClusterResolver as SlurmClusterResolver
from ._task import Task as Task
from ._task import TaskType as TaskType
from ._tf_config import TFConfig as TFConfig
from ._tf_config_resolver import TFConfigClusterResolver as TFConfigClusterResolver
from ._tpu_resolver import TPUClusterResolver as TPUClusterResolver
from ._union_resolver import UnionResolver as UnionResolver
from ._validation import validate_cluster_spec as validate_cluster_spec
