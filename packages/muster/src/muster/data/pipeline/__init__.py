"""The operations of a dataset, as nodes of a pipeline."""
