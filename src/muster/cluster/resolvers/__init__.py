"""Cluster resolvers: one environment a file."""

from muster.cluster.resolvers._kubernetes_resolver import (
    KubernetesClusterResolver as KubernetesClusterResolver,
)
from muster.cluster.resolvers._sagemaker_resolver import SageMakerClusterResolver as SageMakerClusterResolver
from muster.cluster.resolvers._simple_resolver import SimpleClusterResolver as SimpleClusterResolver
from muster.cluster.resolvers._slurm_resolver import SlurmClusterResolver as SlurmClusterResolver
from muster.cluster.resolvers._tf_config_resolver import TFConfigClusterResolver as TFConfigClusterResolver
from muster.cluster.resolvers._tpu_resolver import TPUClusterResolver as TPUClusterResolver
from muster.cluster.resolvers._union_resolver import UnionResolver as UnionResolver
