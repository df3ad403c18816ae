"""The operations of ``tf.image``."""
