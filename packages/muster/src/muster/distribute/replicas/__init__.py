"""Per-replica values, variables in shards, and the replica context."""

from muster.distribute.replicas._replica_context import current_context as current_context
from muster.distribute.replicas._values import map_values as map_values
