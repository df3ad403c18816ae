"""The input pipeline: datasets that know their position, and the readers of data files.

A `Dataset` describes a source and operations on it, with the names and the meaning of TensorFlow's
``tf.data``. Data in memory is read by index, a whole batch at a time.
"""

from ._dataset import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from ._dataset import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
from ._dataset import Dataset as Dataset
from ._example import BytesList as BytesList
from ._example import Example as Example
from ._example import Feature as Feature
from ._example import Features as Features
from ._example import FloatList as FloatList
from ._example import Int64List as Int64List
from ._idx import read_idx as read_idx
from ._iterator import DatasetIterator as DatasetIterator
from ._iterator import moved_position as moved_position
from ._make_csv_dataset import make_csv_dataset as make_csv_dataset
from ._mnist import load_mnist as load_mnist
from ._optional import GetNext as GetNext
from ._optional import Optional as Optional
from ._options import AutoShardPolicy as AutoShardPolicy
from ._options import DistributeOptions as DistributeOptions
from ._options import Options as Options
from ._parse_example import FixedLenFeature as FixedLenFeature
from ._parse_example import FixedLenSequenceFeature as FixedLenSequenceFeature
from ._parse_example import decode_raw as decode_raw
from ._parse_example import parse_example as parse_example
from ._parse_example import parse_single_example as parse_single_example
from ._prefetch import AUTOTUNE as AUTOTUNE
from ._readers import ArrayRecordDataset as ArrayRecordDataset
from ._readers import CsvDataset as CsvDataset
from ._readers import NpzDataset as NpzDataset
from ._readers import ParquetDataset as ParquetDataset
from ._readers import TextLineDataset as TextLineDataset
from ._readers import TFRecordDataset as TFRecordDataset
from ._shard_files import FileShare as FileShare
from ._shard_files import shard_files as shard_files
from ._share import describe_share as describe_share
from ._share import user_shards as user_shards
from ._spec import TensorSpec as TensorSpec
from ._tfrecord import TFRecordOptions as TFRecordOptions
from ._tfrecord import TFRecordWriter as TFRecordWriter
