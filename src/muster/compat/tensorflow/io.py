"""``tf.io``."""

import os as _os
import shutil as _shutil

from muster.compat._names import Names as _Names
from muster.compat.v1._input import read_file as read_file
from muster.compat.v1._input import write_file as write_file
from muster.compat.v2 import gfile as _gfile
from muster.data import FixedLenFeature as FixedLenFeature
from muster.data import FixedLenSequenceFeature as FixedLenSequenceFeature
from muster.data import TFRecordOptions as TFRecordOptions
from muster.data import TFRecordWriter as TFRecordWriter
from muster.data import VarLenFeature as VarLenFeature
from muster.data import decode_csv as decode_csv
from muster.data import decode_raw as decode_raw
from muster.data import parse_example as parse_example
from muster.data import parse_single_example as parse_single_example

matching_files = _gfile.glob
gfile = _Names(
    "tf.io.gfile",
    GFile=_gfile.GFile,
    copy=_gfile.copy,
    exists=_os.path.exists,
    glob=_gfile.glob,
    isdir=_os.path.isdir,
    join=_os.path.join,
    listdir=_os.listdir,
    makedirs=_gfile.makedirs,
    mkdir=_os.mkdir,
    remove=_os.remove,
    rename=_gfile.rename,
    rmtree=_shutil.rmtree,
    stat=_os.stat,
    walk=_os.walk,
)
