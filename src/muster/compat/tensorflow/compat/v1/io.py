"""``tf.compat.v1.io``: TensorFlow 1's arguments and iterator of records, and the names of ``tf.io``."""

from typing import Any

from muster.compat._names import passed_on as _passed_on
from muster.compat.tensorflow import io as _io
from muster.compat.v1._input import TFRecordCompressionType as TFRecordCompressionType
from muster.compat.v1._input import tf_record_iterator as tf_record_iterator
from muster.compat.v1._old_arguments import decode_csv as decode_csv


def __getattr__(name: str) -> Any:
    return _passed_on(_io, __name__, name)
