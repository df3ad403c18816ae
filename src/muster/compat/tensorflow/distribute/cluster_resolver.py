"""``tf.distribute.cluster_resolver``."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from muster.cluster import ClusterResolver as ClusterResolver
from muster.cluster import KubernetesClusterResolver as KubernetesClusterResolver
from muster.cluster import SimpleClusterResolver as SimpleClusterResolver
from muster.cluster import SlurmClusterResolver as SlurmClusterResolver
from muster.cluster import TFConfigClusterResolver as TFConfigClusterResolver
from muster.cluster import TPUClusterResolver as TPUClusterResolver
from muster.cluster import UnionResolver as UnionResolver
from muster.compat._names import missing_from as _missing_from

if not _TYPE_CHECKING:  # so that type checkers also report missing names
    __getattr__ = _missing_from("tf.distribute.cluster_resolver")
