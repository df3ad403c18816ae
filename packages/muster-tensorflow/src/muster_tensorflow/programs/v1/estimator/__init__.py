"""The canned Estimators of ``tf.compat.v1.estimator``: those of `muster.estimator`, as in TensorFlow 1.

They differ in that replicas' and examples' losses are added, in optimizers, which are those of
``tf.compat.v1.train``, and in the learning rate of dense layers, 0.05. Arguments that are not described here
are as for the class of the same name in `muster.estimator`.
"""

from muster_tensorflow.programs.v1.estimator._baseline import BaselineClassifier as BaselineClassifier
from muster_tensorflow.programs.v1.estimator._baseline import BaselineEstimator as BaselineEstimator
from muster_tensorflow.programs.v1.estimator._baseline import BaselineRegressor as BaselineRegressor
from muster_tensorflow.programs.v1.estimator._dnn import DNNClassifier as DNNClassifier
from muster_tensorflow.programs.v1.estimator._dnn import DNNEstimator as DNNEstimator
from muster_tensorflow.programs.v1.estimator._dnn import DNNRegressor as DNNRegressor
from muster_tensorflow.programs.v1.estimator._dnn_linear_combined import (
    DNNLinearCombinedClassifier as DNNLinearCombinedClassifier,
)
from muster_tensorflow.programs.v1.estimator._dnn_linear_combined import (
    DNNLinearCombinedEstimator as DNNLinearCombinedEstimator,
)
from muster_tensorflow.programs.v1.estimator._dnn_linear_combined import (
    DNNLinearCombinedRegressor as DNNLinearCombinedRegressor,
)
from muster_tensorflow.programs.v1.estimator._linear import LinearClassifier as LinearClassifier
from muster_tensorflow.programs.v1.estimator._linear import LinearEstimator as LinearEstimator
from muster_tensorflow.programs.v1.estimator._linear import LinearRegressor as LinearRegressor
