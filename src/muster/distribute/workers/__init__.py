"""The workers of a job: who they are, and their collectives on the host."""
