"""Names of ``tf.keras`` that Keras 3 has otherwise or not at all."""
