"""``tf.contrib.data``."""

from operator import methodcaller as _methodcaller

from muster.data import AUTOTUNE as AUTOTUNE
from muster.data import CsvDataset as CsvDataset
from muster.data import Dataset as Dataset
from muster.data import FixedLengthRecordDataset as FixedLengthRecordDataset
from muster.data import Optional as Optional
from muster.data import TextLineDataset as TextLineDataset
from muster.data import TFRecordDataset as TFRecordDataset
from muster.data import make_csv_dataset as make_csv_dataset
from muster_tensorflow.programs.v1.input import _input
from muster_tensorflow.programs.v1.input._input import DatasetWriter as TFRecordWriter
from muster_tensorflow.programs.v1.input._input import batch_and_drop_remainder as batch_and_drop_remainder
from muster_tensorflow.programs.v1.input._input import copy_to_device as copy_to_device
from muster_tensorflow.programs.v1.input._input import (
    make_batched_features_dataset as make_batched_features_dataset,
)
from muster_tensorflow.programs.v1.input._input import map_and_batch as map_and_batch
from muster_tensorflow.programs.v1.input._input import (
    padded_batch_and_drop_remainder as padded_batch_and_drop_remainder,
)
from muster_tensorflow.programs.v1.input._input import parallel_interleave as parallel_interleave
from muster_tensorflow.programs.v1.input._input import prefetch_to_device as prefetch_to_device
from muster_tensorflow.programs.v1.input._input import shuffle_and_repeat as shuffle_and_repeat

Counter = Dataset.counter
RandomDataset = Dataset.random
bucket_by_sequence_length = _input.transformation("bucket_by_sequence_length")
choose_from_datasets = Dataset.choose_from_datasets
enumerate_dataset = _input.transformation("enumerate")
get_next_as_optional = _methodcaller("get_next_as_optional")
get_single_element = _methodcaller("get_single_element")
group_by_window = _input.transformation("group_by_window")
ignore_errors = _input.transformation("ignore_errors")
rejection_resample = _input.transformation("rejection_resample")
sample_from_datasets = Dataset.sample_from_datasets
scan = _input.transformation("scan")
sloppy_interleave = parallel_interleave
unbatch = _input.transformation("unbatch")
unique = _input.transformation("unique")
