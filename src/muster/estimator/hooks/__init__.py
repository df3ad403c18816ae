"""Hooks that are called around the steps of training, evaluation and prediction, one kind a file."""

from muster.estimator.hooks._base import SessionRunArgs as SessionRunArgs
from muster.estimator.hooks._base import SessionRunContext as SessionRunContext
from muster.estimator.hooks._base import SessionRunHook as SessionRunHook
from muster.estimator.hooks._base import SessionRunValues as SessionRunValues
from muster.estimator.hooks._checkpoint_saver import CheckpointSaverHook as CheckpointSaverHook
from muster.estimator.hooks._checkpoint_saver import CheckpointSaverListener as CheckpointSaverListener
from muster.estimator.hooks._early_stopping import make_early_stopping_hook as make_early_stopping_hook
from muster.estimator.hooks._early_stopping import read_eval_metrics as read_eval_metrics
from muster.estimator.hooks._early_stopping import stop_if_higher_hook as stop_if_higher_hook
from muster.estimator.hooks._early_stopping import stop_if_lower_hook as stop_if_lower_hook
from muster.estimator.hooks._early_stopping import stop_if_no_decrease_hook as stop_if_no_decrease_hook
from muster.estimator.hooks._early_stopping import stop_if_no_increase_hook as stop_if_no_increase_hook
from muster.estimator.hooks._final_ops import FinalOpsHook as FinalOpsHook
from muster.estimator.hooks._logging import LoggingTensorHook as LoggingTensorHook
from muster.estimator.hooks._nan import NanTensorHook as NanTensorHook
from muster.estimator.hooks._step_counter import StepCounterHook as StepCounterHook
from muster.estimator.hooks._stop import StopAfterNEvalsHook as StopAfterNEvalsHook
from muster.estimator.hooks._stop import StopAtStepHook as StopAtStepHook
from muster.estimator.hooks._summary_saver import SummarySaverHook as SummarySaverHook
from muster.estimator.hooks._timer import SecondOrStepTimer as SecondOrStepTimer
from muster.estimator.hooks._writer import SummaryWriter as SummaryWriter
