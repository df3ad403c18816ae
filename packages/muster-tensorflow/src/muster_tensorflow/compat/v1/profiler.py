"""``tf.compat.v1.profiler``: the parameters of a model, and the names of ``tf.profiler``."""

from typing import Any

from muster_tensorflow import profiler as _profiler
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v1._profiler import GraphNodeProto as GraphNodeProto
from muster_tensorflow.programs.v1._profiler import ProfileOptionBuilder as ProfileOptionBuilder
from muster_tensorflow.programs.v1._profiler import profile as profile


def __getattr__(name: str) -> Any:
    return _passed_on(_profiler, __name__, name)
