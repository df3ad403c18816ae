"""The workers of a job, and their collectives on the host."""
