"""``muster run``, ``status`` and their like, ``plan``, ``manifest``: run a job, look at it, describe it."""

from muster.launch._command import add_run_command as add_run_command
from muster.launch._command import spell_out_page as spell_out_page
from muster.launch._from_python import run as run
from muster.launch._job_commands import add_job_commands as add_job_commands
from muster.launch._keys_command import add_keys_command as add_keys_command
from muster.launch._manifest_command import add_manifest_command as add_manifest_command
from muster.launch._notebook import notebook_launcher as notebook_launcher
from muster.launch._replay_command import add_replay_command as add_replay_command
from muster.launch._where_command import add_where_command as add_where_command
from muster.launch.scaling import add_plan_command as add_plan_command
