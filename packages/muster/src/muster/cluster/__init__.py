"""Describe the cluster of a job, find this task in it, and watch the others. Standard library only."""

from muster._errors import ClusterEnvironmentError as ClusterEnvironmentError
from muster._errors import DuplicateTaskError as DuplicateTaskError
from muster.cluster._cluster_resolver import ClusterResolver as ClusterResolver
from muster.cluster._cluster_spec import ClusterSpec as ClusterSpec
from muster.cluster._cluster_spec import Task as Task
from muster.cluster._cluster_spec import TaskType as TaskType
from muster.cluster._environments import FINDERS as FINDERS
from muster.cluster._environments import FoundEnvironment as FoundEnvironment
from muster.cluster._environments import Rendezvous as Rendezvous
from muster.cluster._environments import config_of_environment as config_of_environment
from muster.cluster._environments import find_environment as find_environment
from muster.cluster._environments import resolver_of_environment as resolver_of_environment
from muster.cluster._rendezvous import RendezvousListener as RendezvousListener
from muster.cluster._rendezvous import call_rendezvous as call_rendezvous
from muster.cluster._task_context import TaskContext as TaskContext
from muster.cluster._task_context import task_context as task_context
from muster.cluster._tf_config import TFConfig as TFConfig
from muster.cluster._validation import check_job as check_job
from muster.cluster._validation import validate_cluster_spec as validate_cluster_spec
from muster.cluster.resolvers._gce_resolver import GCEClusterResolver as GCEClusterResolver
from muster.cluster.resolvers._kubernetes_resolver import (
    KubernetesClusterResolver as KubernetesClusterResolver,
)
from muster.cluster.resolvers._sagemaker_resolver import SageMakerClusterResolver as SageMakerClusterResolver
from muster.cluster.resolvers._simple_resolver import SimpleClusterResolver as SimpleClusterResolver
from muster.cluster.resolvers._slurm_resolver import SlurmClusterResolver as SlurmClusterResolver
from muster.cluster.resolvers._tf_config_resolver import TFConfigClusterResolver as TFConfigClusterResolver
from muster.cluster.resolvers._tpu_resolver import TPUClusterResolver as TPUClusterResolver
from muster.cluster.resolvers._union_resolver import UnionResolver as UnionResolver
