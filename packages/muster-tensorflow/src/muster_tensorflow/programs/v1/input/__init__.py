"""TensorFlow 1's input: iterators, queues, fed values, and texts."""
