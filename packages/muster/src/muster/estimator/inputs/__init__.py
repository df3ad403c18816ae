"""Input functions of arrays and data frames in memory."""

from muster.estimator.inputs._numpy import numpy_input_fn as numpy_input_fn
from muster.estimator.inputs._numpy import pandas_input_fn as pandas_input_fn
