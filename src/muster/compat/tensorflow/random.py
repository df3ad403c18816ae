"""``tf.random``: only the seed. What is drawn while a step is traced would be the same in every step."""

from muster._keras import keras

set_seed = keras.utils.set_random_seed
