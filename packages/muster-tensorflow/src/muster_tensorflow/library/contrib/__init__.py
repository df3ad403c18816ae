"""The parts of ``tf.contrib`` that programs with Estimators use, on what became of them."""
