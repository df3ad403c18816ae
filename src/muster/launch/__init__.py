"""``muster run``: starts the tasks of a job on this machine, watches and ends them. Never imports JAX."""

from ._command import add_run_command as add_run_command
