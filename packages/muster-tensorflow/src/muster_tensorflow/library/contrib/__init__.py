"""The parts of ``tf.contrib`` that Estimator programs use, built on their later equivalents."""
