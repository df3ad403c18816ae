"""``muster run``, ``muster manifest`` and ``muster keys``: run a job, describe it, make its certificates."""

from muster.launch._command import add_run_command as add_run_command
from muster.launch._keys_command import add_keys_command as add_keys_command
from muster.launch._manifest_command import add_manifest_command as add_manifest_command
from muster.launch._notebook import notebook_launcher as notebook_launcher
