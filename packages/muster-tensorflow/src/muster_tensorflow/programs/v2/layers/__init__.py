"""Layers of ``tf.keras.layers`` without TensorFlow, and those that Keras 3 lacks."""
