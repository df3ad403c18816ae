"""Checkpoints: directories that are whole or absent, written in the background.

A checkpoint is ``<directory>/ckpt-<step>/``: one or more data files in the safetensors format, and
``manifest.json``, written last. A directory without a manifest is not there for a reader.
"""

from ._amend import amend_metadata as amend_metadata
from ._checkpointer import Checkpointer as Checkpointer
from ._layout import CheckpointInfo as CheckpointInfo
from ._layout import latest_checkpoint as latest_checkpoint
from ._layout import list_checkpoints as list_checkpoints
from ._read import Checkpoint as Checkpoint
from ._read import VariableInfo as VariableInfo
from ._read import list_variables as list_variables
from ._read import read_checkpoint as read_checkpoint
from ._read import read_metadata as read_metadata
from ._read import restore_latest as restore_latest
from ._retention import retain as retain
from ._write import write_checkpoint as write_checkpoint
