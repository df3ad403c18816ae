"""``tf.data``."""

from operator import methodcaller as _methodcaller

from muster import data as _data
from muster.compat._names import Names as _Names
from muster.compat.v1 import _input
from muster.data import AUTOTUNE as AUTOTUNE
from muster.data import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from muster.data import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
from muster.data import Dataset as Dataset
from muster.data import Options as Options
from muster.data import TextLineDataset as TextLineDataset
from muster.data import TFRecordDataset as TFRecordDataset

Iterator = NumpyIterator = _data.DatasetIterator
experimental = _Names(
    "tf.data.experimental",
    AUTOTUNE=AUTOTUNE,
    AutoShardPolicy=_data.AutoShardPolicy,
    CsvDataset=_data.CsvDataset,
    DistributeOptions=_data.DistributeOptions,
    INFINITE_CARDINALITY=INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY=UNKNOWN_CARDINALITY,
    cardinality=_methodcaller("cardinality"),
    make_csv_dataset=_data.make_csv_dataset,
    map_and_batch=_input.map_and_batch,
    parallel_interleave=_input.parallel_interleave,
    prefetch_to_device=_input.prefetch_to_device,
    shuffle_and_repeat=_input.shuffle_and_repeat,
    unbatch=_input.unbatch,
)
