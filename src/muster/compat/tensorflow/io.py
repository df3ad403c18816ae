"""``tf.io``."""

from muster.data import FixedLenFeature as FixedLenFeature
from muster.data import FixedLenSequenceFeature as FixedLenSequenceFeature
from muster.data import TFRecordOptions as TFRecordOptions
from muster.data import TFRecordWriter as TFRecordWriter
from muster.data import decode_raw as decode_raw
from muster.data import parse_example as parse_example
from muster.data import parse_single_example as parse_single_example
