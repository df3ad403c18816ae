"""Values per replica, and the replica context."""
