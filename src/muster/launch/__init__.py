"""``muster run`` and ``muster manifest``: run a job here, or describe it for a cluster manager."""

from muster.launch._command import add_run_command as add_run_command
from muster.launch._manifest_command import add_manifest_command as add_manifest_command
