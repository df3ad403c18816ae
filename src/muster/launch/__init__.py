"""``muster run`` and ``muster manifest``: start a job here, or describe it. Never imports JAX."""

from muster.launch._command import add_run_command as add_run_command
from muster.launch._manifest_command import add_manifest_command as add_manifest_command
