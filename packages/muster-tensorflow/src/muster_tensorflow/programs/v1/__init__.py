"""The parts of TensorFlow 1 that only its programs use: losses, metrics, layers, optimizers, updates."""
