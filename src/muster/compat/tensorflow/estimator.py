"""``tf.estimator``."""

from muster import estimator as _estimator
from muster._errors import NanLossDuringTrainingError as NanLossDuringTrainingError
from muster.compat._names import Names as _Names
from muster.estimator import CheckpointSaverHook as CheckpointSaverHook
from muster.estimator import CheckpointSaverListener as CheckpointSaverListener
from muster.estimator import Estimator as Estimator
from muster.estimator import EstimatorSpec as EstimatorSpec
from muster.estimator import EvalSpec as EvalSpec
from muster.estimator import Exporter as Exporter
from muster.estimator import FinalOpsHook as FinalOpsHook
from muster.estimator import LinearRegressor as LinearRegressor
from muster.estimator import LoggingTensorHook as LoggingTensorHook
from muster.estimator import ModeKeys as ModeKeys
from muster.estimator import NanTensorHook as NanTensorHook
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
from muster.estimator import WarmStartSettings as WarmStartSettings
from muster.estimator import train_and_evaluate as train_and_evaluate
from muster.feature_column import classifier_parse_example_spec as classifier_parse_example_spec
from muster.feature_column import regressor_parse_example_spec as regressor_parse_example_spec

export = _Names(
    "tf.estimator.export",
    ClassificationOutput=_estimator.ClassificationOutput,
    ExportOutput=_estimator.ExportOutput,
    PredictOutput=_estimator.PredictOutput,
    RegressionOutput=_estimator.RegressionOutput,
)
experimental = _Names(
    "tf.estimator.experimental",
    make_early_stopping_hook=_estimator.make_early_stopping_hook,
    stop_if_higher_hook=_estimator.stop_if_higher_hook,
    stop_if_lower_hook=_estimator.stop_if_lower_hook,
    stop_if_no_decrease_hook=_estimator.stop_if_no_decrease_hook,
    stop_if_no_increase_hook=_estimator.stop_if_no_increase_hook,
)
