"""``muster plan``: predicts from what a job has measured how fast it would be with other numbers of tasks."""

from muster.launch.scaling._plan_command import add_plan_command as add_plan_command
