"""``tf.experimental``."""

from muster.data import Optional as Optional
from muster_tensorflow.experimental import numpy as numpy
from muster_tensorflow.programs.v2._asynchronous import async_clear_error as async_clear_error
from muster_tensorflow.programs.v2._asynchronous import async_scope as async_scope
from muster_tensorflow.programs.v2._extension_type import ExtensionType as ExtensionType
