"""``tf.data``."""

from operator import methodcaller
from types import SimpleNamespace

from muster.data import AUTOTUNE as AUTOTUNE
from muster.data import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from muster.data import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
from muster.data import AutoShardPolicy, DistributeOptions
from muster.data import Dataset as Dataset
from muster.data import Options as Options

experimental = SimpleNamespace(
    AUTOTUNE=AUTOTUNE,
    AutoShardPolicy=AutoShardPolicy,
    DistributeOptions=DistributeOptions,
    INFINITE_CARDINALITY=INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY=UNKNOWN_CARDINALITY,
    cardinality=methodcaller("cardinality"),
)
