"""``tf.nest``: structures of lists, tuples and dicts, whose leaves None is one of."""

from muster._keras import keras as _keras

assert_same_structure = _keras.tree.assert_same_structure
flatten = _keras.tree.flatten
is_nested = _keras.tree.is_nested
map_structure = _keras.tree.map_structure
pack_sequence_as = _keras.tree.pack_sequence_as
