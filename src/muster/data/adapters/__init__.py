"""Data of other libraries as arrays, and as batches. None of them is imported: they are known by what they have."""
