"""Cluster resolvers: one environment a file."""

from muster.cluster.resolvers._slurm_lists import expand_hostlist as expand_hostlist
from muster.cluster.resolvers._slurm_lists import expand_tasks_per_node as expand_tasks_per_node
