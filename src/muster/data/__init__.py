"""The input pipeline: datasets that know their position, and the readers of data files.

A `Dataset` describes a source and operations on it, with the names and the meaning of TensorFlow's
``tf.data``. Data in memory is read by index, a whole batch at a time.
"""

from ._dataset import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from ._dataset import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
from ._dataset import Dataset as Dataset
from ._idx import read_idx as read_idx
from ._iterator import DatasetIterator as DatasetIterator
from ._iterator import moved_position as moved_position
from ._mnist import load_mnist as load_mnist
from ._options import AutoShardPolicy as AutoShardPolicy
from ._options import DistributeOptions as DistributeOptions
from ._options import Options as Options
from ._prefetch import AUTOTUNE as AUTOTUNE
from ._share import describe_share as describe_share
from ._spec import TensorSpec as TensorSpec
