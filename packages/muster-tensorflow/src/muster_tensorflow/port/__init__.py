"""``muster port``: reads programs for TensorFlow without running them, and says what to change."""

from muster_tensorflow.port._command import add_port_command as add_port_command
from muster_tensorflow.port._tables import tables as tables
