"""``tf.io``."""

import os as _os

from muster import data as _data
from muster.data import FixedLenFeature as FixedLenFeature
from muster.data import FixedLenSequenceFeature as FixedLenSequenceFeature
from muster.data import RaggedFeature as RaggedFeature
from muster.data import SparseFeature as SparseFeature
from muster.data import TFRecordOptions as TFRecordOptions
from muster.data import TFRecordWriter as TFRecordWriter
from muster.data import VarLenFeature as VarLenFeature
from muster_tensorflow.library.ops import _tensor_proto
from muster_tensorflow.library.ops._eager_values import shown as _shown
from muster_tensorflow.library.ops._eager_values import shown_decoded as _shown_decoded
from muster_tensorflow.library.ops._parameters import takes as _takes
from muster_tensorflow.library.ops.text._more_strings import decode_base64 as decode_base64
from muster_tensorflow.library.ops.text._more_strings import decode_compressed as decode_compressed
from muster_tensorflow.library.ops.text._more_strings import encode_base64 as encode_base64
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.programs.v1.input._input import read_file as read_file
from muster_tensorflow.programs.v1.input._input import write_file as write_file
from muster_tensorflow.programs.v2 import gfile as _gfile
from muster_tensorflow.programs.v2.files import _decode_proto, _image_files, _sparse_messages
from muster_tensorflow.programs.v2.files._sparse_messages import (
    deserialize_many_sparse as deserialize_many_sparse,
)

decode_csv = _shown_decoded(_data.decode_csv)
decode_and_crop_jpeg = _shown_decoded(_image_files.decode_and_crop_jpeg)
decode_gif = _shown_decoded(_image_files.decode_gif)
decode_image = _shown_decoded(_image_files.decode_image)
decode_jpeg = _shown_decoded(_image_files.decode_jpeg)
decode_png = decode_bmp = _shown_decoded(_image_files.decode_png)
decode_proto = _shown_decoded(_decode_proto.decode_proto)
decode_raw = _shown_decoded(_data.decode_raw)
encode_jpeg = _shown(_image_files.encode_jpeg)
encode_png = _shown(_image_files.encode_png)
extract_jpeg_shape = _shown_decoded(_image_files.extract_jpeg_shape)
is_jpeg = _shown_decoded(_image_files.is_jpeg)
match_filenames_once = matching_files = _takes(_gfile.glob, "pattern name=")
gfile = _Names(
    "tf.io.gfile",
    GFile=_gfile.GFile,
    copy=_gfile.copy,
    exists=_gfile.exists,
    glob=_gfile.glob,
    isdir=_gfile.isdir,
    join=_os.path.join,
    listdir=_gfile.listdir,
    makedirs=_gfile.makedirs,
    mkdir=_gfile.mkdir,
    remove=_gfile.remove,
    rename=_gfile.rename,
    rmtree=_gfile.rmtree,
    stat=_gfile.stat,
    walk=_gfile.walk,
)

parse_example = _shown_decoded(_data.parse_example)
parse_single_example = _shown_decoded(_data.parse_single_example)
parse_sequence_example = _shown_decoded(_data.parse_sequence_example)
parse_single_sequence_example = _shown_decoded(_data.parse_single_sequence_example)
parse_tensor = _shown_decoded(_tensor_proto.parse_tensor)
serialize_many_sparse = _shown(_sparse_messages.serialize_many_sparse)
serialize_sparse = _shown(_sparse_messages.serialize_sparse)
serialize_tensor = _shown(_tensor_proto.serialize_tensor)
