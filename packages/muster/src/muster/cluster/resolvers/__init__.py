"""Cluster resolvers: one environment a file."""
