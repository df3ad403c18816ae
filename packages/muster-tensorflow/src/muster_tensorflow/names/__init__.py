"""Look up TensorFlow's names, with hints for missing ones."""
