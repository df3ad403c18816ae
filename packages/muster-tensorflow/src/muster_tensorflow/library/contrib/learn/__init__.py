"""``tf.contrib.learn``: Estimators, metrics and Experiments as they were before ``tf.estimator``."""

from muster_tensorflow.library.contrib.learn._canned import (
    infer_real_valued_columns_from_input as infer_real_valued_columns_from_input,
)
from muster_tensorflow.library.contrib.learn._canned import (
    infer_real_valued_columns_from_input_fn as infer_real_valued_columns_from_input_fn,
)
from muster_tensorflow.library.contrib.learn._canned_models import DNNClassifier as DNNClassifier
from muster_tensorflow.library.contrib.learn._canned_models import (
    DNNLinearCombinedClassifier as DNNLinearCombinedClassifier,
)
from muster_tensorflow.library.contrib.learn._canned_models import (
    DNNLinearCombinedRegressor as DNNLinearCombinedRegressor,
)
from muster_tensorflow.library.contrib.learn._canned_models import DNNRegressor as DNNRegressor
from muster_tensorflow.library.contrib.learn._canned_models import LinearClassifier as LinearClassifier
from muster_tensorflow.library.contrib.learn._canned_models import LinearRegressor as LinearRegressor
from muster_tensorflow.library.contrib.learn._estimator import Estimator as Estimator
from muster_tensorflow.library.contrib.learn._estimator import SKCompat as SKCompat
from muster_tensorflow.library.contrib.learn._experiment import Experiment as Experiment
from muster_tensorflow.library.contrib.learn._learn_runner import make_export_strategy as make_export_strategy
from muster_tensorflow.library.contrib.learn._learn_runner import run as run
from muster_tensorflow.library.contrib.learn._metric_spec import MetricSpec as MetricSpec
from muster_tensorflow.library.contrib.learn._model_fn_ops import InputFnOps as InputFnOps
from muster_tensorflow.library.contrib.learn._model_fn_ops import ModelFnOps as ModelFnOps
from muster_tensorflow.library.contrib.learn._model_fn_ops import (
    build_default_serving_input_fn as build_default_serving_input_fn,
)
from muster_tensorflow.library.contrib.learn._model_fn_ops import (
    build_parsing_serving_input_fn as build_parsing_serving_input_fn,
)
