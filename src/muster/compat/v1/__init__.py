"""What programs written for TensorFlow 1 use."""
