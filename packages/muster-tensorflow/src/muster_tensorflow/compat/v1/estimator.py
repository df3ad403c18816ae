"""``tf.compat.v1.estimator``: TensorFlow 1's canned Estimators, and the names of ``tf.estimator``."""

from typing import Any

from muster_tensorflow import estimator as _estimator
from muster_tensorflow.names._names import missing as _missing
from muster_tensorflow.programs.v1.estimator import BaselineClassifier as BaselineClassifier
from muster_tensorflow.programs.v1.estimator import BaselineEstimator as BaselineEstimator
from muster_tensorflow.programs.v1.estimator import BaselineRegressor as BaselineRegressor
from muster_tensorflow.programs.v1.estimator import DNNClassifier as DNNClassifier
from muster_tensorflow.programs.v1.estimator import DNNEstimator as DNNEstimator
from muster_tensorflow.programs.v1.estimator import DNNLinearCombinedClassifier as DNNLinearCombinedClassifier
from muster_tensorflow.programs.v1.estimator import DNNLinearCombinedEstimator as DNNLinearCombinedEstimator
from muster_tensorflow.programs.v1.estimator import DNNLinearCombinedRegressor as DNNLinearCombinedRegressor
from muster_tensorflow.programs.v1.estimator import DNNRegressor as DNNRegressor
from muster_tensorflow.programs.v1.estimator import LinearClassifier as LinearClassifier
from muster_tensorflow.programs.v1.estimator import LinearEstimator as LinearEstimator
from muster_tensorflow.programs.v1.estimator import LinearRegressor as LinearRegressor


def __getattr__(name: str) -> Any:
    try:
        return getattr(_estimator, name)
    except AttributeError:
        raise _missing("tf.compat.v1.estimator", name) from None
