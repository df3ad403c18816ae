"""``tf.compat.v1.strings``: the names of ``tf.strings``."""

from typing import Any

from muster_tensorflow import strings as _strings
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v1._text import split as split
from muster_tensorflow.programs.v1.operations._old_arguments import substr as substr
from muster_tensorflow.programs.v1.operations._old_operations import reduce_join as reduce_join
from muster_tensorflow.programs.v1.operations._old_parameters import length as length
from muster_tensorflow.programs.v1.operations._old_parameters import to_hash_bucket as to_hash_bucket
from muster_tensorflow.programs.v1.operations._old_parameters import to_number as to_number


def __getattr__(name: str) -> Any:
    return _passed_on(_strings, __name__, name)
