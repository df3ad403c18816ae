"""``tf.train`` and ``tf.compat.v1.train``, which are one here."""

from muster.checkpoint import latest_checkpoint as latest_checkpoint
from muster.checkpoint import list_variables as list_variables
from muster.cluster import ClusterSpec as ClusterSpec
from muster.compat._optimizers import AdadeltaOptimizer as AdadeltaOptimizer
from muster.compat._optimizers import AdagradOptimizer as AdagradOptimizer
from muster.compat._optimizers import AdamOptimizer as AdamOptimizer
from muster.compat._optimizers import FtrlOptimizer as FtrlOptimizer
from muster.compat._optimizers import GradientDescentOptimizer as GradientDescentOptimizer
from muster.compat._optimizers import MomentumOptimizer as MomentumOptimizer
from muster.compat._optimizers import Optimizer as Optimizer
from muster.compat._optimizers import RMSPropOptimizer as RMSPropOptimizer
from muster.compat._schedules import cosine_decay as cosine_decay
from muster.compat._schedules import exponential_decay as exponential_decay
from muster.compat._schedules import inverse_time_decay as inverse_time_decay
from muster.compat._schedules import natural_exp_decay as natural_exp_decay
from muster.compat._schedules import piecewise_constant as piecewise_constant
from muster.compat._schedules import polynomial_decay as polynomial_decay
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
from muster.program import get_or_create_global_step as get_or_create_global_step

get_global_step = get_or_create_global_step
"""In a step there is always one."""
