"""``tf.train`` and ``tf.compat.v1.train``, one module for both."""

from muster.checkpoint.tensorflow import newest_checkpoint as _newest_checkpoint
from muster.cluster import ClusterSpec as ClusterSpec
from muster.compat.tensorflow.estimator import CheckpointSaverHook as CheckpointSaverHook
from muster.compat.tensorflow.estimator import CheckpointSaverListener as CheckpointSaverListener
from muster.compat.tensorflow.estimator import FinalOpsHook as FinalOpsHook
from muster.compat.tensorflow.estimator import GlobalStepWaiterHook as GlobalStepWaiterHook
from muster.compat.tensorflow.estimator import LoggingTensorHook as LoggingTensorHook
from muster.compat.tensorflow.estimator import NanLossDuringTrainingError as NanLossDuringTrainingError
from muster.compat.tensorflow.estimator import NanTensorHook as NanTensorHook
from muster.compat.tensorflow.estimator import ProfilerHook as ProfilerHook
from muster.compat.tensorflow.estimator import SecondOrStepTimer as SecondOrStepTimer
from muster.compat.tensorflow.estimator import SessionRunArgs as SessionRunArgs
from muster.compat.tensorflow.estimator import SessionRunContext as SessionRunContext
from muster.compat.tensorflow.estimator import SessionRunHook as SessionRunHook
from muster.compat.tensorflow.estimator import SessionRunValues as SessionRunValues
from muster.compat.tensorflow.estimator import StepCounterHook as StepCounterHook
from muster.compat.tensorflow.estimator import StopAtStepHook as StopAtStepHook
from muster.compat.tensorflow.estimator import SummarySaverHook as SummarySaverHook
from muster.compat.tensorflow.estimator import VocabInfo as VocabInfo
from muster.compat.v1._init_from_checkpoint import init_from_checkpoint as init_from_checkpoint
from muster.compat.v1._optimizers import AdadeltaOptimizer as AdadeltaOptimizer
from muster.compat.v1._optimizers import AdagradOptimizer as AdagradOptimizer
from muster.compat.v1._optimizers import AdamOptimizer as AdamOptimizer
from muster.compat.v1._optimizers import FtrlOptimizer as FtrlOptimizer
from muster.compat.v1._optimizers import GradientDescentOptimizer as GradientDescentOptimizer
from muster.compat.v1._optimizers import MomentumOptimizer as MomentumOptimizer
from muster.compat.v1._optimizers import Optimizer as Optimizer
from muster.compat.v1._optimizers import ProximalAdagradOptimizer as ProximalAdagradOptimizer
from muster.compat.v1._optimizers import ProximalGradientDescentOptimizer as ProximalGradientDescentOptimizer
from muster.compat.v1._optimizers import RMSPropOptimizer as RMSPropOptimizer
from muster.compat.v1._schedules import cosine_decay as cosine_decay
from muster.compat.v1._schedules import cosine_decay_restarts as cosine_decay_restarts
from muster.compat.v1._schedules import exponential_decay as exponential_decay
from muster.compat.v1._schedules import inverse_time_decay as inverse_time_decay
from muster.compat.v1._schedules import linear_cosine_decay as linear_cosine_decay
from muster.compat.v1._schedules import natural_exp_decay as natural_exp_decay
from muster.compat.v1._schedules import noisy_linear_cosine_decay as noisy_linear_cosine_decay
from muster.compat.v1._schedules import piecewise_constant as piecewise_constant
from muster.compat.v1._schedules import piecewise_constant_decay as piecewise_constant_decay
from muster.compat.v1._schedules import polynomial_decay as polynomial_decay
from muster.compat.v1._step import get_global_step as get_global_step
from muster.compat.v2._checkpoint import Checkpoint as Checkpoint
from muster.compat.v2._checkpoint import CheckpointManager as CheckpointManager
from muster.compat.v2._checkpoint import CheckpointOptions as CheckpointOptions
from muster.compat.v2._checkpoint_reader import CheckpointReader as CheckpointReader
from muster.compat.v2._checkpoint_reader import list_variables as list_variables
from muster.compat.v2._checkpoint_reader import load_checkpoint as load_checkpoint
from muster.compat.v2._checkpoint_reader import load_variable as load_variable
from muster.compat.v2._checkpoint_state import checkpoints_iterator as checkpoints_iterator
from muster.compat.v2._checkpoint_state import get_checkpoint_state as get_checkpoint_state
from muster.compat.v2.gfile import glob as _glob
from muster.data import BytesList as BytesList
from muster.data import Example as Example
from muster.data import Feature as Feature
from muster.data import Features as Features
from muster.data import FloatList as FloatList
from muster.data import Int64List as Int64List
from muster.distribute import Server as Server
from muster.estimator import Saver as Saver
from muster.estimator import Scaffold as Scaffold
from muster.program import get_or_create_global_step as get_or_create_global_step

latest_checkpoint = _newest_checkpoint
NewCheckpointReader = load_checkpoint
create_global_step = get_or_create_global_step
match_filenames_once = _glob
