"""``tf.lookup``, for input functions."""

from muster.compat.v2._tables import KeyValueTensorInitializer as KeyValueTensorInitializer
from muster.compat.v2._tables import StaticHashTable as StaticHashTable
from muster.compat.v2._tables import StaticVocabularyTable as StaticVocabularyTable
from muster.compat.v2._tables import TextFileIndex as TextFileIndex
from muster.compat.v2._tables import TextFileInitializer as TextFileInitializer
