"""``tf.experimental``."""

from muster.compat.tensorflow.experimental import numpy as numpy
from muster.data import Optional as Optional
