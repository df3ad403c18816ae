"""``tf.estimator``."""

from muster import NanLossDuringTrainingError as NanLossDuringTrainingError
from muster import estimator as _estimator
from muster.estimator import BaselineClassifier as BaselineClassifier
from muster.estimator import BaselineEstimator as BaselineEstimator
from muster.estimator import BaselineRegressor as BaselineRegressor
from muster.estimator import BestExporter as BestExporter
from muster.estimator import BinaryClassHead as BinaryClassHead
from muster.estimator import CheckpointSaverHook as CheckpointSaverHook
from muster.estimator import CheckpointSaverListener as CheckpointSaverListener
from muster.estimator import DNNClassifier as DNNClassifier
from muster.estimator import DNNEstimator as DNNEstimator
from muster.estimator import DNNLinearCombinedClassifier as DNNLinearCombinedClassifier
from muster.estimator import DNNLinearCombinedEstimator as DNNLinearCombinedEstimator
from muster.estimator import DNNLinearCombinedRegressor as DNNLinearCombinedRegressor
from muster.estimator import DNNRegressor as DNNRegressor
from muster.estimator import Estimator as Estimator
from muster.estimator import EstimatorSpec as EstimatorSpec
from muster.estimator import EvalSpec as EvalSpec
from muster.estimator import Exporter as Exporter
from muster.estimator import FinalExporter as FinalExporter
from muster.estimator import FinalOpsHook as FinalOpsHook
from muster.estimator import GlobalStepWaiterHook as GlobalStepWaiterHook
from muster.estimator import Head as Head
from muster.estimator import LatestExporter as LatestExporter
from muster.estimator import LinearClassifier as LinearClassifier
from muster.estimator import LinearEstimator as LinearEstimator
from muster.estimator import LinearRegressor as LinearRegressor
from muster.estimator import LoggingTensorHook as LoggingTensorHook
from muster.estimator import LogisticRegressionHead as LogisticRegressionHead
from muster.estimator import ModeKeys as ModeKeys
from muster.estimator import MultiClassHead as MultiClassHead
from muster.estimator import MultiHead as MultiHead
from muster.estimator import MultiLabelHead as MultiLabelHead
from muster.estimator import NanTensorHook as NanTensorHook
from muster.estimator import PoissonRegressionHead as PoissonRegressionHead
from muster.estimator import ProfilerHook as ProfilerHook
from muster.estimator import RegressionHead as RegressionHead
from muster.estimator import RunConfig as RunConfig
from muster.estimator import SecondOrStepTimer as SecondOrStepTimer
from muster.estimator import SessionRunArgs as SessionRunArgs
from muster.estimator import SessionRunContext as SessionRunContext
from muster.estimator import SessionRunHook as SessionRunHook
from muster.estimator import SessionRunValues as SessionRunValues
from muster.estimator import StepCounterHook as StepCounterHook
from muster.estimator import StopAtStepHook as StopAtStepHook
from muster.estimator import SummarySaverHook as SummarySaverHook
from muster.estimator import TrainSpec as TrainSpec
from muster.estimator import VocabInfo as VocabInfo
from muster.estimator import WarmStartSettings as WarmStartSettings
from muster.estimator import add_metrics as add_metrics
from muster.estimator import train_and_evaluate as train_and_evaluate
from muster.feature_column import classifier_parse_example_spec as classifier_parse_example_spec
from muster.feature_column import regressor_parse_example_spec as regressor_parse_example_spec
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.programs.v1 import tpu as _tpu

export = _Names(
    "tf.estimator.export",
    ClassificationOutput=_estimator.ClassificationOutput,
    ExportOutput=_estimator.ExportOutput,
    PredictOutput=_estimator.PredictOutput,
    RegressionOutput=_estimator.RegressionOutput,
    ServingInputReceiver=_estimator.ServingInputReceiver,
    TensorServingInputReceiver=_estimator.TensorServingInputReceiver,
    build_parsing_serving_input_receiver_fn=_estimator.build_parsing_serving_input_receiver_fn,
    build_raw_serving_input_receiver_fn=_estimator.build_raw_serving_input_receiver_fn,
)
experimental = _Names(
    "tf.estimator.experimental",
    RNNClassifier=_estimator.RNNClassifier,
    RNNEstimator=_estimator.RNNEstimator,
    build_raw_supervised_input_receiver_fn=_estimator.build_raw_supervised_input_receiver_fn,
    call_logit_fn=_estimator.call_logit_fn,
    dnn_logit_fn_builder=_estimator.dnn_logit_fn_builder,
    linear_logit_fn_builder=_estimator.linear_logit_fn_builder,
    InMemoryEvaluatorHook=_estimator.InMemoryEvaluatorHook,
    make_early_stopping_hook=_estimator.make_early_stopping_hook,
    make_stop_at_checkpoint_step_hook=_estimator.make_stop_at_checkpoint_step_hook,
    stop_if_higher_hook=_estimator.stop_if_higher_hook,
    stop_if_lower_hook=_estimator.stop_if_lower_hook,
    stop_if_no_decrease_hook=_estimator.stop_if_no_decrease_hook,
    stop_if_no_increase_hook=_estimator.stop_if_no_increase_hook,
)
inputs = _Names(
    "tf.estimator.inputs",
    numpy_input_fn=_estimator.numpy_input_fn,
    pandas_input_fn=_estimator.pandas_input_fn,
)
tpu = _Names(
    "tf.estimator.tpu",
    InputPipelineConfig=_tpu.InputPipelineConfig,
    RunConfig=_tpu.TPURunConfig,
    TPUConfig=_tpu.TPUConfig,
    TPUEstimator=_tpu.TPUEstimator,
    TPUEstimatorSpec=_tpu.TPUEstimatorSpec,
)
