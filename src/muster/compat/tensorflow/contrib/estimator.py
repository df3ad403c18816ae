"""``tf.contrib.estimator``."""

from muster.compat.v1.contrib.training import clip_gradients_by_norm as clip_gradients_by_norm
from muster.estimator import BinaryClassHead as binary_classification_head
from muster.estimator import DNNEstimator as DNNEstimator
from muster.estimator import DNNLinearCombinedEstimator as DNNLinearCombinedEstimator
from muster.estimator import InMemoryEvaluatorHook as InMemoryEvaluatorHook
from muster.estimator import LinearEstimator as LinearEstimator
from muster.estimator import LogisticRegressionHead as logistic_regression_head
from muster.estimator import MultiClassHead as multi_class_head
from muster.estimator import MultiHead as multi_head
from muster.estimator import MultiLabelHead as multi_label_head
from muster.estimator import PoissonRegressionHead as poisson_regression_head
from muster.estimator import RegressionHead as regression_head
from muster.estimator import RNNClassifier as RNNClassifier
from muster.estimator import RNNEstimator as RNNEstimator
from muster.estimator import add_metrics as add_metrics
from muster.estimator import call_logit_fn as call_logit_fn
from muster.estimator import dnn_logit_fn_builder as dnn_logit_fn_builder
from muster.estimator import forward_features as forward_features
from muster.estimator import linear_logit_fn_builder as linear_logit_fn_builder
from muster.estimator import make_early_stopping_hook as make_early_stopping_hook
from muster.estimator import make_stop_at_checkpoint_step_hook as make_stop_at_checkpoint_step_hook
from muster.estimator import stop_if_higher_hook as stop_if_higher_hook
from muster.estimator import stop_if_lower_hook as stop_if_lower_hook
from muster.estimator import stop_if_no_decrease_hook as stop_if_no_decrease_hook
from muster.estimator import stop_if_no_increase_hook as stop_if_no_increase_hook
