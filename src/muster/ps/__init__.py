"""Parameter servers: what holds the values of variables, updates them, and brings them to workers."""
