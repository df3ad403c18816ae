"""The parts of TensorFlow 2 that only its programs use: devices, files, variables, checkpoints, lookups."""
