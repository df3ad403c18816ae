"""``tf.data``."""

from operator import attrgetter as _attrgetter
from operator import methodcaller as _methodcaller

from muster import data as _data
from muster.data import AUTOTUNE as AUTOTUNE
from muster.data import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from muster.data import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
from muster.data import Dataset as Dataset
from muster.data import FixedLengthRecordDataset as FixedLengthRecordDataset
from muster.data import Options as Options
from muster.data import TextLineDataset as TextLineDataset
from muster.data import TFRecordDataset as TFRecordDataset
from muster.data import ThreadingOptions as ThreadingOptions
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.programs.v1.input import _input
from muster_tensorflow.programs.v2.data import _data_experimental

Iterator = NumpyIterator = _data.DatasetIterator
experimental = _Names(
    "tf.data.experimental",
    AUTOTUNE=AUTOTUNE,
    AutotuneAlgorithm=_data_experimental.AutotuneAlgorithm,
    AutotuneOptions=_data.AutotuneOptions,
    ExternalStatePolicy=_data_experimental.ExternalStatePolicy,
    OptimizationOptions=_data.OptimizationOptions,
    Optional=_data.Optional,
    ThreadingOptions=ThreadingOptions,
    AutoShardPolicy=_data.AutoShardPolicy,
    CsvDataset=_data.CsvDataset,
    DistributeOptions=_data.DistributeOptions,
    INFINITE_CARDINALITY=INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY=UNKNOWN_CARDINALITY,
    Counter=Dataset.counter,
    RandomDataset=Dataset.random,
    TFRecordWriter=_input.DatasetWriter,
    at=_data_experimental.at,
    from_list=_data_experimental.from_list,
    get_next_as_optional=_methodcaller("get_next_as_optional"),
    get_structure=_attrgetter("element_spec"),
    index_table_from_dataset=_data_experimental.index_table_from_dataset,
    pad_to_cardinality=_data_experimental.pad_to_cardinality,
    table_from_dataset=_data_experimental.table_from_dataset,
    assert_cardinality=_input.transformation("assert_cardinality"),
    bucket_by_sequence_length=_input.transformation("bucket_by_sequence_length"),
    cardinality=_methodcaller("cardinality"),
    choose_from_datasets=Dataset.choose_from_datasets,
    copy_to_device=_input.copy_to_device,
    dense_to_ragged_batch=_input.transformation("ragged_batch"),
    enumerate_dataset=_input.transformation("enumerate"),
    get_single_element=_methodcaller("get_single_element"),
    group_by_window=_input.transformation("group_by_window"),
    ignore_errors=_input.transformation("ignore_errors"),
    load=Dataset.load,
    make_batched_features_dataset=_input.make_batched_features_dataset,
    make_csv_dataset=_data.make_csv_dataset,
    map_and_batch=_input.map_and_batch,
    map_and_batch_with_legacy_function=_input.map_and_batch,
    parallel_interleave=_input.parallel_interleave,
    prefetch_to_device=_input.prefetch_to_device,
    rejection_resample=_input.transformation("rejection_resample"),
    sample_from_datasets=Dataset.sample_from_datasets,
    save=Dataset.save,
    scan=_input.transformation("scan"),
    shuffle_and_repeat=_input.shuffle_and_repeat,
    snapshot=_input.transformation("snapshot"),
    take_while=_input.transformation("take_while"),
    unbatch=_input.transformation("unbatch"),
    unique=_input.transformation("unique"),
)
