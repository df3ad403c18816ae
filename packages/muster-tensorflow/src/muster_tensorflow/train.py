"""``tf.train`` and ``tf.compat.v1.train``, one module for both."""

from typing import Any as _Any

from muster.cluster import ClusterSpec as ClusterSpec
from muster.distribute import Server as Server
from muster.extend import example_message_class as _message_class
from muster_tensorflow.estimator import CheckpointSaverHook as CheckpointSaverHook
from muster_tensorflow.estimator import CheckpointSaverListener as CheckpointSaverListener
from muster_tensorflow.estimator import FinalOpsHook as FinalOpsHook
from muster_tensorflow.estimator import GlobalStepWaiterHook as GlobalStepWaiterHook
from muster_tensorflow.estimator import LoggingTensorHook as LoggingTensorHook
from muster_tensorflow.estimator import NanLossDuringTrainingError as NanLossDuringTrainingError
from muster_tensorflow.estimator import NanTensorHook as NanTensorHook
from muster_tensorflow.estimator import ProfilerHook as ProfilerHook
from muster_tensorflow.estimator import SecondOrStepTimer as SecondOrStepTimer
from muster_tensorflow.estimator import SessionRunArgs as SessionRunArgs
from muster_tensorflow.estimator import SessionRunContext as SessionRunContext
from muster_tensorflow.estimator import SessionRunHook as SessionRunHook
from muster_tensorflow.estimator import SessionRunValues as SessionRunValues
from muster_tensorflow.estimator import StepCounterHook as StepCounterHook
from muster_tensorflow.estimator import StopAtStepHook as StopAtStepHook
from muster_tensorflow.estimator import SummarySaverHook as SummarySaverHook
from muster_tensorflow.estimator import VocabInfo as VocabInfo
from muster_tensorflow.library.ops._parameters import takes as _takes
from muster_tensorflow.programs.v1._step import get_global_step as get_global_step
from muster_tensorflow.programs.v1._step import get_or_create_global_step as get_or_create_global_step
from muster_tensorflow.programs.v1._summary import summary_iterator as summary_iterator
from muster_tensorflow.programs.v1.input._queues import batch as batch
from muster_tensorflow.programs.v1.input._queues import input_producer as input_producer
from muster_tensorflow.programs.v1.input._queues import limit_epochs as limit_epochs
from muster_tensorflow.programs.v1.input._queues import range_input_producer as range_input_producer
from muster_tensorflow.programs.v1.input._queues import shuffle_batch as shuffle_batch
from muster_tensorflow.programs.v1.input._queues import slice_input_producer as slice_input_producer
from muster_tensorflow.programs.v1.input._queues import string_input_producer as string_input_producer
from muster_tensorflow.programs.v1.sessions._coordinator import Coordinator as Coordinator
from muster_tensorflow.programs.v1.sessions._saver import Saver as Saver
from muster_tensorflow.programs.v1.sessions._scaffold import Scaffold as Scaffold
from muster_tensorflow.programs.v1.training._moving_average import (
    ExponentialMovingAverage as ExponentialMovingAverage,
)
from muster_tensorflow.programs.v1.training._optimizers import AdadeltaOptimizer as AdadeltaOptimizer
from muster_tensorflow.programs.v1.training._optimizers import AdagradOptimizer as AdagradOptimizer
from muster_tensorflow.programs.v1.training._optimizers import AdamOptimizer as AdamOptimizer
from muster_tensorflow.programs.v1.training._optimizers import FtrlOptimizer as FtrlOptimizer
from muster_tensorflow.programs.v1.training._optimizers import (
    GradientDescentOptimizer as GradientDescentOptimizer,
)
from muster_tensorflow.programs.v1.training._optimizers import MomentumOptimizer as MomentumOptimizer
from muster_tensorflow.programs.v1.training._optimizers import (
    ProximalAdagradOptimizer as ProximalAdagradOptimizer,
)
from muster_tensorflow.programs.v1.training._optimizers import (
    ProximalGradientDescentOptimizer as ProximalGradientDescentOptimizer,
)
from muster_tensorflow.programs.v1.training._optimizers import RMSPropOptimizer as RMSPropOptimizer
from muster_tensorflow.programs.v1.training._own_optimizers import Optimizer as Optimizer
from muster_tensorflow.programs.v1.training._schedules import cosine_decay as cosine_decay
from muster_tensorflow.programs.v1.training._schedules import cosine_decay_restarts as cosine_decay_restarts
from muster_tensorflow.programs.v1.training._schedules import exponential_decay as exponential_decay
from muster_tensorflow.programs.v1.training._schedules import inverse_time_decay as inverse_time_decay
from muster_tensorflow.programs.v1.training._schedules import linear_cosine_decay as linear_cosine_decay
from muster_tensorflow.programs.v1.training._schedules import natural_exp_decay as natural_exp_decay
from muster_tensorflow.programs.v1.training._schedules import (
    noisy_linear_cosine_decay as noisy_linear_cosine_decay,
)
from muster_tensorflow.programs.v1.training._schedules import piecewise_constant as piecewise_constant
from muster_tensorflow.programs.v1.training._schedules import (
    piecewise_constant_decay as piecewise_constant_decay,
)
from muster_tensorflow.programs.v1.training._schedules import polynomial_decay as polynomial_decay
from muster_tensorflow.programs.v1.training._sync_replicas import (
    SyncReplicasOptimizer as SyncReplicasOptimizer,
)
from muster_tensorflow.programs.v1.variables._init_from_checkpoint import (
    init_from_checkpoint as init_from_checkpoint,
)
from muster_tensorflow.programs.v2.checkpoints._checkpoint import Checkpoint as Checkpoint
from muster_tensorflow.programs.v2.checkpoints._checkpoint import CheckpointOptions as CheckpointOptions
from muster_tensorflow.programs.v2.checkpoints._checkpoint_manager import (
    CheckpointManager as CheckpointManager,
)
from muster_tensorflow.programs.v2.checkpoints._checkpoint_reader import CheckpointReader as CheckpointReader
from muster_tensorflow.programs.v2.checkpoints._checkpoint_reader import list_variables as list_variables
from muster_tensorflow.programs.v2.checkpoints._checkpoint_reader import load_checkpoint as load_checkpoint
from muster_tensorflow.programs.v2.checkpoints._checkpoint_reader import load_variable as load_variable
from muster_tensorflow.programs.v2.checkpoints._checkpoint_state import (
    checkpoints_iterator as checkpoints_iterator,
)
from muster_tensorflow.programs.v2.checkpoints._checkpoint_state import (
    get_checkpoint_state as get_checkpoint_state,
)
from muster_tensorflow.programs.v2.checkpoints._named_checkpoints import (
    checkpoint_exists as checkpoint_exists,
)
from muster_tensorflow.programs.v2.checkpoints._named_checkpoints import (
    latest_checkpoint as latest_checkpoint,
)
from muster_tensorflow.programs.v2.gfile import glob as _glob

# The messages themselves, not muster's classes: programs change them in place.
BytesList: _Any = _message_class("BytesList")
Example: _Any = _message_class("Example")
Feature: _Any = _message_class("Feature")
FeatureList: _Any = _message_class("FeatureList")
FeatureLists: _Any = _message_class("FeatureLists")
Features: _Any = _message_class("Features")
FloatList: _Any = _message_class("FloatList")
Int64List: _Any = _message_class("Int64List")
SequenceExample: _Any = _message_class("SequenceExample")

NewCheckpointReader = _takes(load_checkpoint, "filepattern=ckpt_dir_or_file")
create_global_step = get_or_create_global_step
match_filenames_once = _takes(_glob, "pattern name=")
