"""Event files for TensorBoard, written and read without TensorFlow or TensorBoard."""

from muster.summary._event_files import EventFileWriter as EventFileWriter
from muster.summary._event_files import read_event_file as read_event_file
from muster.summary._event_files import read_events as read_events
from muster.summary._messages import Event as Event
from muster.summary._messages import SessionLog as SessionLog
