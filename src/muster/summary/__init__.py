"""Event files for TensorBoard, written and read without TensorFlow or TensorBoard."""

from muster.summary._messages import Event as Event
from muster.summary._messages import SessionLog as SessionLog
from muster.summary._reader import read_events as read_events
from muster.summary._writer import EventFileWriter as EventFileWriter
