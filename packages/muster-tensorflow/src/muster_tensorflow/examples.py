"""``tf.examples``: the input of TensorFlow 1's tutorials."""

from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.programs.v1 import mnist_input as _mnist

_input_data = _Names("tf.examples.tutorials.mnist.input_data", read_data_sets=_mnist.read_data_sets)
_tutorials_mnist = _Names("tf.examples.tutorials.mnist", input_data=_input_data)
tutorials = _Names("tf.examples.tutorials", mnist=_tutorials_mnist)
