"""``tf.contrib``, of TensorFlow 1: what programs with an Experiment use; errors say what became of others."""

from muster.compat._names import Names as _Names
from muster.compat.tensorflow.contrib import learn as learn
from muster.compat.v1 import _input
from muster.data import AUTOTUNE as _AUTOTUNE
from muster.data import CsvDataset as _CsvDataset
from muster.data import make_csv_dataset as _make_csv_dataset

data = _Names(
    "tf.contrib.data",
    AUTOTUNE=_AUTOTUNE,
    CsvDataset=_CsvDataset,
    make_csv_dataset=_make_csv_dataset,
    map_and_batch=_input.map_and_batch,
    parallel_interleave=_input.parallel_interleave,
    prefetch_to_device=_input.prefetch_to_device,
    shuffle_and_repeat=_input.shuffle_and_repeat,
    unbatch=_input.unbatch,
)
distribute = _Names("tf.contrib.distribute")
estimator = _Names("tf.contrib.estimator")
framework = _Names("tf.contrib.framework")
layers = _Names("tf.contrib.layers")
tpu = _Names("tf.contrib.tpu")
training = _Names("tf.contrib.training")
