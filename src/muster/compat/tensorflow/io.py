"""``tf.io``."""

from muster.compat._names import Names as _Names
from muster.compat.v2 import gfile as _gfile
from muster.data import FixedLenFeature as FixedLenFeature
from muster.data import FixedLenSequenceFeature as FixedLenSequenceFeature
from muster.data import TFRecordOptions as TFRecordOptions
from muster.data import TFRecordWriter as TFRecordWriter
from muster.data import decode_raw as decode_raw
from muster.data import parse_example as parse_example
from muster.data import parse_single_example as parse_single_example

gfile = _Names(
    "tf.io.gfile",
    GFile=_gfile.GFile,
    copy=_gfile.copy,
    exists=_gfile.exists,
    glob=_gfile.glob,
    isdir=_gfile.isdir,
    join=_gfile.join,
    listdir=_gfile.listdir,
    makedirs=_gfile.makedirs,
    mkdir=_gfile.mkdir,
    remove=_gfile.remove,
    rename=_gfile.rename,
    rmtree=_gfile.rmtree,
    stat=_gfile.stat,
    walk=_gfile.walk,
)
