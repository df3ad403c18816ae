"""Per-replica values, and the replica context."""
