"""Estimators: train, evaluate and predict with a model_fn, from a directory of checkpoints."""

from muster import _keras as _keras  # first: Ctrl-C waits for it
from muster.estimator._estimator import Estimator as Estimator
from muster.estimator._estimator_spec import ClassificationOutput as ClassificationOutput
from muster.estimator._estimator_spec import EstimatorSpec as EstimatorSpec
from muster.estimator._estimator_spec import ExportOutput as ExportOutput
from muster.estimator._estimator_spec import PredictOutput as PredictOutput
from muster.estimator._estimator_spec import RegressionOutput as RegressionOutput
from muster.estimator._mode_keys import ModeKeys as ModeKeys
from muster.estimator._run_config import DistributeConfig as DistributeConfig
from muster.estimator._run_config import RunConfig as RunConfig
from muster.estimator._specs import EvalSpec as EvalSpec
from muster.estimator._specs import TrainSpec as TrainSpec
from muster.estimator.canned._linear_regressor import LinearRegressor as LinearRegressor
from muster.estimator.exporters._exporter import Exporter as Exporter
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
from muster.estimator.hooks._step_counter import StepCounterHook as StepCounterHook
from muster.estimator.hooks._stop import StopAtStepHook as StopAtStepHook
from muster.estimator.hooks._summary_saver import SummarySaverHook as SummarySaverHook
from muster.estimator.hooks._timer import SecondOrStepTimer as SecondOrStepTimer
from muster.estimator.loop._warm_start import WarmStartSettings as WarmStartSettings
from muster.estimator.roles._train_and_evaluate import train_and_evaluate as train_and_evaluate
from muster.estimator.session._session import Session as Session
