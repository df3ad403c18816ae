"""Data of other libraries as arrays and as batches; none is imported, they are known by what they have."""
