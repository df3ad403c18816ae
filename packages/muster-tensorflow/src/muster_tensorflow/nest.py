"""``tf.nest``: structures of lists, tuples and dicts, whose leaves None is one of."""

from muster_tensorflow.programs.v2._nest import assert_same_structure as assert_same_structure
from muster_tensorflow.programs.v2._nest import flatten as flatten
from muster_tensorflow.programs.v2._nest import is_nested as is_nested
from muster_tensorflow.programs.v2._nest import map_structure as map_structure
from muster_tensorflow.programs.v2._nest import pack_sequence_as as pack_sequence_as
