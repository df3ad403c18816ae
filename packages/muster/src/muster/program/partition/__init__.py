"""Partition a step over the global batch among workers."""

from muster.program.partition._partition import partitioned as partitioned
from muster.program.partition._sharding import IndivisibleError as IndivisibleError
