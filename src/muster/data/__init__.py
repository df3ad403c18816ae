"""Input pipelines that can be resumed at any element, and readers of data files.

A `Dataset` describes a source and operations on it, with the names and the meaning of TensorFlow's
``tf.data``. Data in memory is read by index, a batch at a time.
"""

from muster._row_ids import wide_ids as wide_ids
from muster.data._adapted import dataset_line as dataset_line
from muster.data._adapted import dataset_of_batches as dataset_of_batches
from muster.data._dataset import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from muster.data._dataset import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
from muster.data._dataset import Dataset as Dataset
from muster.data._iterator import DatasetIterator as DatasetIterator
from muster.data._iterator import moved_position as moved_position
from muster.data._numbered import NumberedElements as NumberedElements
from muster.data._numbered_reader import NumberedReader as NumberedReader
from muster.data._one_shot import OneShotIterator as OneShotIterator
from muster.data._one_shot import as_dataset as as_dataset
from muster.data._optional import GetNext as GetNext
from muster.data._optional import Optional as Optional
from muster.data._options import AutoShardPolicy as AutoShardPolicy
from muster.data._options import DistributeOptions as DistributeOptions
from muster.data._options import Options as Options
from muster.data.adapters._arrays import as_arrays as as_arrays
from muster.data.adapters._arrays import column_names as column_names
from muster.data.adapters._kinds import is_kind as is_kind
from muster.data.adapters._kinds import parts_with_labels as parts_with_labels
from muster.data.adapters._kinds import refuse as refuse
from muster.data.adapters._kinds import refuse_whole as refuse_whole
from muster.data.files._decode_csv import decode_csv as decode_csv
from muster.data.files._example import BytesList as BytesList
from muster.data.files._example import Example as Example
from muster.data.files._example import Feature as Feature
from muster.data.files._example import Features as Features
from muster.data.files._example import FloatList as FloatList
from muster.data.files._example import Int64List as Int64List
from muster.data.files._idx import read_idx as read_idx
from muster.data.files._mnist import load_mnist as load_mnist
from muster.data.files._parse_example import FixedLenFeature as FixedLenFeature
from muster.data.files._parse_example import FixedLenSequenceFeature as FixedLenSequenceFeature
from muster.data.files._parse_example import RaggedFeature as RaggedFeature
from muster.data.files._parse_example import VarLenFeature as VarLenFeature
from muster.data.files._parse_example import decode_raw as decode_raw
from muster.data.files._parse_example import parse_example as parse_example
from muster.data.files._parse_example import parse_single_example as parse_single_example
from muster.data.files._placeholder import ComputedPlaceholder as ComputedPlaceholder
from muster.data.files._placeholder import Parsed as Parsed
from muster.data.files._placeholder import Placeholder as Placeholder
from muster.data.files._tensor_proto import numbered_dtype as numbered_dtype
from muster.data.files._tensor_proto import parse_tensor as parse_tensor
from muster.data.files._tensor_proto import serialize_tensor as serialize_tensor
from muster.data.files._tfrecord import TFRecordOptions as TFRecordOptions
from muster.data.files._tfrecord import TFRecordWriter as TFRecordWriter
from muster.data.pipeline._map import FunctionArguments as FunctionArguments
from muster.data.pipeline._map import in_dataset_function as in_dataset_function
from muster.data.pipeline._prefetch import AUTOTUNE as AUTOTUNE
from muster.data.pipeline._ragged_tensor import RaggedTensor as RaggedTensor
from muster.data.pipeline._sparse_tensor import SparseTensor as SparseTensor
from muster.data.pipeline._spec import RaggedTensorSpec as RaggedTensorSpec
from muster.data.pipeline._spec import TensorSpec as TensorSpec
from muster.data.readers._make_csv_dataset import make_csv_dataset as make_csv_dataset
from muster.data.readers._readers import ArrayRecordDataset as ArrayRecordDataset
from muster.data.readers._readers import CsvDataset as CsvDataset
from muster.data.readers._readers import FixedLengthRecordDataset as FixedLengthRecordDataset
from muster.data.readers._readers import NpzDataset as NpzDataset
from muster.data.readers._readers import ParquetDataset as ParquetDataset
from muster.data.readers._readers import TextLineDataset as TextLineDataset
from muster.data.readers._readers import TFRecordDataset as TFRecordDataset
