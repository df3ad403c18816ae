"""Reading checkpoints that TensorFlow wrote, without TensorFlow."""

from muster.checkpoint.tensorflow._bundle import OBJECT_GRAPH as OBJECT_GRAPH
from muster.checkpoint.tensorflow._bundle import STRING as STRING
from muster.checkpoint.tensorflow._bundle import Entry as Entry
from muster.checkpoint.tensorflow._either import TENSORFLOW as TENSORFLOW
from muster.checkpoint.tensorflow._either import find_checkpoint as find_checkpoint
from muster.checkpoint.tensorflow._either import list_either as list_either
from muster.checkpoint.tensorflow._either import meant_path as meant_path
from muster.checkpoint.tensorflow._either import newest_checkpoint as newest_checkpoint
from muster.checkpoint.tensorflow._either import read_either as read_either
from muster.checkpoint.tensorflow._names import is_whole as is_whole
from muster.checkpoint.tensorflow._names import join_parts as join_parts
from muster.checkpoint.tensorflow._names import match_names as match_names
from muster.checkpoint.tensorflow._names import name_of as name_of
from muster.checkpoint.tensorflow._objects import load_weights as load_weights
from muster.checkpoint.tensorflow._objects import restore_objects as restore_objects
from muster.checkpoint.tensorflow._reader import TensorFlowCheckpoint as TensorFlowCheckpoint
from muster.checkpoint.tensorflow._reader import is_tensorflow_checkpoint as is_tensorflow_checkpoint
from muster.checkpoint.tensorflow._state import CheckpointState as CheckpointState
from muster.checkpoint.tensorflow._state import latest_prefix as latest_prefix
from muster.checkpoint.tensorflow._state import prefixes as prefixes
