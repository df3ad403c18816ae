"""Event files: what TensorBoard shows, written and read without TensorFlow or TensorBoard."""

from ._reader import Event as Event
from ._reader import read_events as read_events
from ._writer import EventFileWriter as EventFileWriter
from ._writer import SessionLog as SessionLog
