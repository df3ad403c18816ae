"""``tf.compat.v1.layers``: functions, and the layer that TensorFlow's guides build."""

from muster._keras import keras as _keras
from muster.compat.v1.layers import average_pooling2d as average_pooling2d
from muster.compat.v1.layers import batch_normalization as batch_normalization
from muster.compat.v1.layers import conv2d as conv2d
from muster.compat.v1.layers import dense as dense
from muster.compat.v1.layers import dropout as dropout
from muster.compat.v1.layers import flatten as flatten
from muster.compat.v1.layers import max_pooling2d as max_pooling2d

Dense = _keras.layers.Dense
