"""Look up TensorFlow's names; errors of missing ones say what to use."""
