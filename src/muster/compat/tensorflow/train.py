"""``tf.train`` and ``tf.compat.v1.train``, one module for both."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from muster.checkpoint import latest_checkpoint as latest_checkpoint
from muster.checkpoint import list_variables as list_variables
from muster.cluster import ClusterSpec as ClusterSpec
from muster.compat._names import missing_from as _missing_from
from muster.compat.tensorflow.estimator import CheckpointSaverHook as CheckpointSaverHook
from muster.compat.tensorflow.estimator import CheckpointSaverListener as CheckpointSaverListener
from muster.compat.tensorflow.estimator import FinalOpsHook as FinalOpsHook
from muster.compat.tensorflow.estimator import LoggingTensorHook as LoggingTensorHook
from muster.compat.tensorflow.estimator import NanLossDuringTrainingError as NanLossDuringTrainingError
from muster.compat.tensorflow.estimator import NanTensorHook as NanTensorHook
from muster.compat.tensorflow.estimator import SecondOrStepTimer as SecondOrStepTimer
from muster.compat.tensorflow.estimator import SessionRunArgs as SessionRunArgs
from muster.compat.tensorflow.estimator import SessionRunContext as SessionRunContext
from muster.compat.tensorflow.estimator import SessionRunHook as SessionRunHook
from muster.compat.tensorflow.estimator import SessionRunValues as SessionRunValues
from muster.compat.tensorflow.estimator import StepCounterHook as StepCounterHook
from muster.compat.tensorflow.estimator import StopAtStepHook as StopAtStepHook
from muster.compat.tensorflow.estimator import SummarySaverHook as SummarySaverHook
from muster.compat.v1._optimizers import AdadeltaOptimizer as AdadeltaOptimizer
from muster.compat.v1._optimizers import AdagradOptimizer as AdagradOptimizer
from muster.compat.v1._optimizers import AdamOptimizer as AdamOptimizer
from muster.compat.v1._optimizers import FtrlOptimizer as FtrlOptimizer
from muster.compat.v1._optimizers import GradientDescentOptimizer as GradientDescentOptimizer
from muster.compat.v1._optimizers import MomentumOptimizer as MomentumOptimizer
from muster.compat.v1._optimizers import Optimizer as Optimizer
from muster.compat.v1._optimizers import RMSPropOptimizer as RMSPropOptimizer
from muster.compat.v1._schedules import cosine_decay as cosine_decay
from muster.compat.v1._schedules import exponential_decay as exponential_decay
from muster.compat.v1._schedules import inverse_time_decay as inverse_time_decay
from muster.compat.v1._schedules import natural_exp_decay as natural_exp_decay
from muster.compat.v1._schedules import piecewise_constant as piecewise_constant
from muster.compat.v1._schedules import polynomial_decay as polynomial_decay
from muster.compat.v1._step import get_global_step as get_global_step
from muster.compat.v2._checkpoint import Checkpoint as Checkpoint
from muster.compat.v2._checkpoint import CheckpointManager as CheckpointManager
from muster.compat.v2._checkpoint import CheckpointOptions as CheckpointOptions
from muster.data import BytesList as BytesList
from muster.data import Example as Example
from muster.data import Feature as Feature
from muster.data import Features as Features
from muster.data import FloatList as FloatList
from muster.data import Int64List as Int64List
from muster.program import get_or_create_global_step as get_or_create_global_step

if not _TYPE_CHECKING:  # so that type checkers also report missing names
    __getattr__ = _missing_from("tf.train")
