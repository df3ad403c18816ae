"""TensorFlow 1's own API: losses, metrics, layers, optimizers, updates."""
