"""``tf.io``."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from muster.compat._missing import missing as _missing
from muster.data import FixedLenFeature as FixedLenFeature
from muster.data import FixedLenSequenceFeature as FixedLenSequenceFeature
from muster.data import TFRecordOptions as TFRecordOptions
from muster.data import TFRecordWriter as TFRecordWriter
from muster.data import decode_raw as decode_raw
from muster.data import parse_example as parse_example
from muster.data import parse_single_example as parse_single_example

if not _TYPE_CHECKING:  # so that type checkers know what is not there, too

    def __getattr__(name: str) -> None:
        raise _missing("tf.io", name)
