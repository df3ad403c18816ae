"""``tf.compat.v1.data``: one-shot iterators, and the names of ``tf.data``."""

from operator import attrgetter as _attrgetter
from typing import Any

from muster_tensorflow import data as _data
from muster_tensorflow.library.ops._one_shot import make_initializable_iterator as make_initializable_iterator
from muster_tensorflow.library.ops._one_shot import make_one_shot_iterator as make_one_shot_iterator
from muster_tensorflow.names._names import passed_on as _passed_on

get_output_shapes = _attrgetter("output_shapes")
get_output_types = _attrgetter("output_types")


def __getattr__(name: str) -> Any:
    return _passed_on(_data, __name__, name)
