"""What hooks see of a training: variables, outputs, the global step."""
