"""The operations of neural networks: ``tf.nn``, and quantization for training."""
