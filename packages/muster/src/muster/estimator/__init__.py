"""Estimators: train, evaluate and predict with a model_fn, from a directory of checkpoints."""

from muster import _keras as _keras  # first: Ctrl-C waits for it
from muster.estimator._estimator import Estimator as Estimator
from muster.estimator._estimator_spec import ClassificationOutput as ClassificationOutput
from muster.estimator._estimator_spec import EstimatorSpec as EstimatorSpec
from muster.estimator._estimator_spec import ExportOutput as ExportOutput
from muster.estimator._estimator_spec import ModeKeys as ModeKeys
from muster.estimator._estimator_spec import ModelSetup as ModelSetup
from muster.estimator._estimator_spec import PredictOutput as PredictOutput
from muster.estimator._estimator_spec import RegressionOutput as RegressionOutput
from muster.estimator._extenders import add_metrics as add_metrics
from muster.estimator._extenders import forward_features as forward_features
from muster.estimator._in_memory_evaluator import InMemoryEvaluatorHook as InMemoryEvaluatorHook
from muster.estimator._run_config import DistributeConfig as DistributeConfig
from muster.estimator._run_config import RunConfig as RunConfig
from muster.estimator._specs import EvalSpec as EvalSpec
from muster.estimator._specs import TrainSpec as TrainSpec
from muster.estimator._words import Words as Words
from muster.estimator.canned._baseline import BaselineClassifier as BaselineClassifier
from muster.estimator.canned._baseline import BaselineEstimator as BaselineEstimator
from muster.estimator.canned._baseline import BaselineRegressor as BaselineRegressor
from muster.estimator.canned._dnn import DNNClassifier as DNNClassifier
from muster.estimator.canned._dnn import DNNEstimator as DNNEstimator
from muster.estimator.canned._dnn import DNNRegressor as DNNRegressor
from muster.estimator.canned._dnn_linear_combined import (
    DNNLinearCombinedClassifier as DNNLinearCombinedClassifier,
)
from muster.estimator.canned._dnn_linear_combined import (
    DNNLinearCombinedEstimator as DNNLinearCombinedEstimator,
)
from muster.estimator.canned._dnn_linear_combined import (
    DNNLinearCombinedRegressor as DNNLinearCombinedRegressor,
)
from muster.estimator.canned._linear import LinearClassifier as LinearClassifier
from muster.estimator.canned._linear import LinearEstimator as LinearEstimator
from muster.estimator.canned._linear import LinearRegressor as LinearRegressor
from muster.estimator.canned._logit_fns import call_logit_fn as call_logit_fn
from muster.estimator.canned._logit_fns import dnn_logit_fn_builder as dnn_logit_fn_builder
from muster.estimator.canned._logit_fns import linear_logit_fn_builder as linear_logit_fn_builder
from muster.estimator.canned._rnn import RNNClassifier as RNNClassifier
from muster.estimator.canned._rnn import RNNEstimator as RNNEstimator
from muster.estimator.export._receivers import ServingInputReceiver as ServingInputReceiver
from muster.estimator.export._receivers import TensorServingInputReceiver as TensorServingInputReceiver
from muster.estimator.export._receivers import (
    build_parsing_serving_input_receiver_fn as build_parsing_serving_input_receiver_fn,
)
from muster.estimator.export._receivers import (
    build_raw_serving_input_receiver_fn as build_raw_serving_input_receiver_fn,
)
from muster.estimator.export._supervised_receivers import SupervisedInputReceiver as SupervisedInputReceiver
from muster.estimator.export._supervised_receivers import (
    build_raw_supervised_input_receiver_fn as build_raw_supervised_input_receiver_fn,
)
from muster.estimator.export._supervised_receivers import (
    build_supervised_input_receiver_fn_from_input_fn as build_supervised_input_receiver_fn_from_input_fn,
)
from muster.estimator.exporters._best_exporter import BestExporter as BestExporter
from muster.estimator.exporters._exporter import Exporter as Exporter
from muster.estimator.exporters._exporter import FinalExporter as FinalExporter
from muster.estimator.exporters._exporter import LatestExporter as LatestExporter
from muster.estimator.heads._class_heads import BinaryClassHead as BinaryClassHead
from muster.estimator.heads._class_heads import MultiClassHead as MultiClassHead
from muster.estimator.heads._head import Head as Head
from muster.estimator.heads._multi_head import MultiHead as MultiHead
from muster.estimator.heads._multi_label_head import MultiLabelHead as MultiLabelHead
from muster.estimator.heads._regression_head import LogisticRegressionHead as LogisticRegressionHead
from muster.estimator.heads._regression_head import PoissonRegressionHead as PoissonRegressionHead
from muster.estimator.heads._regression_head import RegressionHead as RegressionHead
from muster.estimator.heads._sequential_head import SequentialHeadWrapper as SequentialHeadWrapper
from muster.estimator.hooks._base import SessionRunArgs as SessionRunArgs
from muster.estimator.hooks._base import SessionRunContext as SessionRunContext
from muster.estimator.hooks._base import SessionRunHook as SessionRunHook
from muster.estimator.hooks._base import SessionRunValues as SessionRunValues
from muster.estimator.hooks._checkpoint_saver import CheckpointSaverHook as CheckpointSaverHook
from muster.estimator.hooks._checkpoint_saver import CheckpointSaverListener as CheckpointSaverListener
from muster.estimator.hooks._early_stopping import make_early_stopping_hook as make_early_stopping_hook
from muster.estimator.hooks._early_stopping import stop_if_higher_hook as stop_if_higher_hook
from muster.estimator.hooks._early_stopping import stop_if_lower_hook as stop_if_lower_hook
from muster.estimator.hooks._early_stopping import stop_if_no_decrease_hook as stop_if_no_decrease_hook
from muster.estimator.hooks._early_stopping import stop_if_no_increase_hook as stop_if_no_increase_hook
from muster.estimator.hooks._final_ops import FinalOpsHook as FinalOpsHook
from muster.estimator.hooks._logging import LoggingTensorHook as LoggingTensorHook
from muster.estimator.hooks._nan import NanTensorHook as NanTensorHook
from muster.estimator.hooks._profiler import ProfilerHook as ProfilerHook
from muster.estimator.hooks._stop import StopAtStepHook as StopAtStepHook
from muster.estimator.hooks._summary_saver import StepCounterHook as StepCounterHook
from muster.estimator.hooks._summary_saver import SummarySaverHook as SummarySaverHook
from muster.estimator.hooks._timer import SecondOrStepTimer as SecondOrStepTimer
from muster.estimator.hooks._waiting import GlobalStepWaiterHook as GlobalStepWaiterHook
from muster.estimator.hooks._waiting import (
    make_stop_at_checkpoint_step_hook as make_stop_at_checkpoint_step_hook,
)
from muster.estimator.inputs import numpy_input_fn as numpy_input_fn
from muster.estimator.inputs import pandas_input_fn as pandas_input_fn
from muster.estimator.keras_models._model_to_estimator import model_to_estimator as model_to_estimator
from muster.estimator.loop._vocab_info import VocabInfo as VocabInfo
from muster.estimator.loop._warm_start import WarmStartSettings as WarmStartSettings
from muster.estimator.roles._train_and_evaluate import train_and_evaluate as train_and_evaluate
from muster.estimator.session._session import Session as Session
