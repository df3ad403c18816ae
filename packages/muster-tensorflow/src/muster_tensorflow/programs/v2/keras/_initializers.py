"""TensorFlow 2's ``tf.random_normal_initializer`` and its like, which are Keras' initializers."""

from typing import Any

from muster import keras

random_normal_initializer: Any = keras.initializers.RandomNormal
random_uniform_initializer: Any = keras.initializers.RandomUniform
