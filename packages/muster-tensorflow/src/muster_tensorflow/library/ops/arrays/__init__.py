"""Shapes, slices, segments, sets and sparse tensors: operations on arrays as a whole."""
