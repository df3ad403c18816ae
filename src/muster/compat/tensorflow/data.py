"""``tf.data``."""

from operator import methodcaller
from types import SimpleNamespace

from muster.data import AUTOTUNE as AUTOTUNE
from muster.data import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from muster.data import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
from muster.data import AutoShardPolicy, CsvDataset, DistributeOptions, make_csv_dataset
from muster.data import Dataset as Dataset
from muster.data import Options as Options
from muster.data import TextLineDataset as TextLineDataset
from muster.data import TFRecordDataset as TFRecordDataset

experimental = SimpleNamespace(
    AUTOTUNE=AUTOTUNE,
    AutoShardPolicy=AutoShardPolicy,
    CsvDataset=CsvDataset,
    DistributeOptions=DistributeOptions,
    INFINITE_CARDINALITY=INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY=UNKNOWN_CARDINALITY,
    cardinality=methodcaller("cardinality"),
    make_csv_dataset=make_csv_dataset,
)
