"""Checkpoints: written in the background, and complete or absent for every reader.

A checkpoint is ``<directory>/ckpt-<step>/``: one or more data files in the safetensors format, and
``manifest.json``, written last. Readers ignore what is being written or deleted.
"""

from muster.checkpoint._arrays import FileRecord as FileRecord
from muster.checkpoint._arrays import open_regular as open_regular
from muster.checkpoint._arrays import read_arrays as read_arrays
from muster.checkpoint._arrays import write_arrays as write_arrays
from muster.checkpoint._checkpointer import Checkpointer as Checkpointer
from muster.checkpoint._checkpointer import retain as retain
from muster.checkpoint._keyed import KeyedPiece as KeyedPiece
from muster.checkpoint._keyed import SavedTable as SavedTable
from muster.checkpoint._keyed import clock_of as clock_of
from muster.checkpoint._keyed import column_of_key as column_of_key
from muster.checkpoint._keyed import column_record as column_record
from muster.checkpoint._keyed import gone_of as gone_of
from muster.checkpoint._keyed import ids_of as ids_of
from muster.checkpoint._keyed import table_records as table_records
from muster.checkpoint._keyed import waiting_for as waiting_for
from muster.checkpoint._layout import BASENAME as BASENAME
from muster.checkpoint._layout import CheckpointInfo as CheckpointInfo
from muster.checkpoint._layout import checkpoint_path as checkpoint_path
from muster.checkpoint._layout import delete_checkpoint as delete_checkpoint
from muster.checkpoint._layout import delete_old_checkpoint as delete_old_checkpoint
from muster.checkpoint._layout import is_complete as is_complete
from muster.checkpoint._layout import latest_checkpoint as latest_checkpoint
from muster.checkpoint._layout import list_checkpoints as list_checkpoints
from muster.checkpoint._layout import replace_folder as replace_folder
from muster.checkpoint._layout import stray_checkpoints as stray_checkpoints
from muster.checkpoint._layout import writer_of as writer_of
from muster.checkpoint._lease import Lease as Lease
from muster.checkpoint._lease import WriterWatch as WriterWatch
from muster.checkpoint._manifest import Piece as Piece
from muster.checkpoint._manifest import VariableRecord as VariableRecord
from muster.checkpoint._manifest import sync_directory as sync_directory
from muster.checkpoint._manifest import with_checksum as with_checksum
from muster.checkpoint._manifest import without_checksum as without_checksum
from muster.checkpoint._mapped_array import MappedArray as MappedArray
from muster.checkpoint._mapped_array import MappedFile as MappedFile
from muster.checkpoint._mapped_array import close_files as close_files
from muster.checkpoint._parts import PartRecord as PartRecord
from muster.checkpoint._parts import Parts as Parts
from muster.checkpoint._parts import PartsUnderWay as PartsUnderWay
from muster.checkpoint._parts import changed_rows as changed_rows
from muster.checkpoint._parts import link_base as link_base
from muster.checkpoint._parts import sees_folder as sees_folder
from muster.checkpoint._parts import write_part as write_part
from muster.checkpoint._read import Checkpoint as Checkpoint
from muster.checkpoint._read import RowsInfo as RowsInfo
from muster.checkpoint._read import VariableInfo as VariableInfo
from muster.checkpoint._read import check_checkpoint as check_checkpoint
from muster.checkpoint._read import list_rows as list_rows
from muster.checkpoint._read import list_tables as list_tables
from muster.checkpoint._read import list_variables as list_variables
from muster.checkpoint._read import read_checkpoint as read_checkpoint
from muster.checkpoint._read import read_metadata as read_metadata
from muster.checkpoint._read import restore_latest as restore_latest
from muster.checkpoint._repair import repair as repair
from muster.checkpoint._training_note import TrainingNote as TrainingNote
from muster.checkpoint._training_note import forget_notes as forget_notes
from muster.checkpoint._training_note import note_paths as note_paths
from muster.checkpoint._training_note import note_training as note_training
from muster.checkpoint._training_note import read_note as read_note
from muster.checkpoint._write import amend_metadata as amend_metadata
from muster.checkpoint._write import write_checkpoint as write_checkpoint
