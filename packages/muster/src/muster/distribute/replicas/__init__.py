"""Per-replica values, variables in shards, and the replica context."""
