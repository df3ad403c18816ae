"""What programs written for TensorFlow 2 use."""
