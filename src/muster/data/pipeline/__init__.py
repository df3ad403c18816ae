"""The operations of a dataset, one node of the pipeline each."""
