"""Random numbers, their generators and seeds."""
