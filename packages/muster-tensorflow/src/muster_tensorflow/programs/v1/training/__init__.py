"""TensorFlow 1's optimizers and learning rates, and averages of variables."""
