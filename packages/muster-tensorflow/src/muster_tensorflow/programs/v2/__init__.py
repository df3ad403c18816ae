"""TensorFlow 2's own API: devices, files, variables, checkpoints, lookups."""
