"""Names that optimizers had before TensorFlow 2.11."""

import muster_tensorflow as tf
from muster_tensorflow.keras.optimizers.experimental import AdamW


def test_they_are_those_of_keras():
    assert AdamW is tf.keras.optimizers.AdamW
    assert tf.keras.optimizers.experimental.SGD is tf.keras.optimizers.SGD
