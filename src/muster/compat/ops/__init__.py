"""TensorFlow's operations on arrays."""
