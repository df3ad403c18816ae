"""``tf.contrib.eager``: names of eager code that programs for TensorFlow 1 use, and the devices."""

from muster.program import GradientTape as GradientTape
from muster_tensorflow.library.contrib.devices import list_devices as list_devices
from muster_tensorflow.library.contrib.devices import num_gpus as num_gpus
from muster_tensorflow.library.ops.control._control import executing_eagerly as executing_eagerly
from muster_tensorflow.library.ops.control._python_calls import py_function as py_func  # exported
from muster_tensorflow.programs.v2._function import function as defun  # exported
from muster_tensorflow.programs.v2._variable import Variable as Variable
