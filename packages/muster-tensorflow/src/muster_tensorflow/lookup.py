"""``tf.lookup``, for input functions."""

from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.programs.v2.data import _mutable_tables
from muster_tensorflow.programs.v2.data._tables import KeyValueTensorInitializer as KeyValueTensorInitializer
from muster_tensorflow.programs.v2.data._tables import StaticHashTable as StaticHashTable
from muster_tensorflow.programs.v2.data._tables import StaticVocabularyTable as StaticVocabularyTable
from muster_tensorflow.programs.v2.data._tables import TextFileIndex as TextFileIndex
from muster_tensorflow.programs.v2.data._tables import TextFileInitializer as TextFileInitializer

experimental = _Names(
    "tf.lookup.experimental",
    DenseHashTable=_mutable_tables.DenseHashTable,
    MutableHashTable=_mutable_tables.MutableHashTable,
)
