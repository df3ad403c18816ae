"""``tf.compat.v1.profiler``."""

from muster.compat.v1._profiler import GraphNodeProto as GraphNodeProto
from muster.compat.v1._profiler import ProfileOptionBuilder as ProfileOptionBuilder
from muster.compat.v1._profiler import profile as profile
