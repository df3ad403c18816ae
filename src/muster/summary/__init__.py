"""Event files: what TensorBoard shows, written and read without TensorFlow or TensorBoard."""

from muster.summary._reader import Event as Event
from muster.summary._reader import read_events as read_events
from muster.summary._writer import EventFileWriter as EventFileWriter
from muster.summary._writer import SessionLog as SessionLog
