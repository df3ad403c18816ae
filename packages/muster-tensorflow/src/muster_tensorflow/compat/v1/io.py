"""``tf.compat.v1.io``: TensorFlow 1's arguments and iterator of records, and the names of ``tf.io``."""

from typing import Any

from muster_tensorflow import io as _io
from muster_tensorflow.library.ops._parameters import takes as _takes
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v1.input._input import TFRecordCompressionType as TFRecordCompressionType
from muster_tensorflow.programs.v1.input._input import tf_record_iterator as tf_record_iterator
from muster_tensorflow.programs.v1.operations._old_arguments import decode_csv as decode_csv

serialize_sparse = _takes(_io.serialize_sparse, "sp_input name out_type")
serialize_many_sparse = _takes(_io.serialize_many_sparse, "sp_input name out_type")
parse_example = _takes(_io.parse_example, "serialized features name example_names")
parse_single_example = _takes(_io.parse_single_example, "serialized features name example_names")
decode_raw = _takes(_io.decode_raw, "input_bytes out_type little_endian name bytes=input_bytes")


def __getattr__(name: str) -> Any:
    return _passed_on(_io, __name__, name)
