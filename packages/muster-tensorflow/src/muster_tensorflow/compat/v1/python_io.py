"""``tf.compat.v1.python_io``."""

from muster.data import TFRecordOptions as TFRecordOptions
from muster.data import TFRecordWriter as TFRecordWriter
from muster_tensorflow.programs.v1.input._input import TFRecordCompressionType as TFRecordCompressionType
from muster_tensorflow.programs.v1.input._input import tf_record_iterator as tf_record_iterator
