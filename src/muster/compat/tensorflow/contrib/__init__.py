"""``tf.contrib``, of TensorFlow 1: what programs with an Experiment use."""

from muster.compat.tensorflow.contrib import learn as learn
