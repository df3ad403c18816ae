"""The division of a host's GPUs among its tasks under Slurm."""

import dataclasses
from collections.abc import Mapping

from muster._errors import ClusterEnvironmentError

VISIBLE = "CUDA_VISIBLE_DEVICES"
# The values that mean "no device": Slurm's, and CUDA's.
_NONE = ("", "NoDevFiles", "-1")


@dataclasses.dataclass(frozen=True)
class Gpus:
    """The GPUs that a task of a step sees.

    Args:
        ids: Their names in ``CUDA_VISIBLE_DEVICES``.
        per_task: The number of GPUs that a task uses.
        exclusive: Whether no other task of the host sees them, so that there is nothing to divide.
    """

    ids: tuple[str, ...]
    per_task: int
    exclusive: bool

    def of_task(self, local: int) -> str | None:
        """Return the value of ``CUDA_VISIBLE_DEVICES`` for a task; None leaves the variable as it is.

        Args:
            local: The task's number on its host.
        """
        if self.exclusive:
            return None
        return ",".join(self.ids[local * self.per_task : (local + 1) * self.per_task])


def find_gpus(environ: Mapping[str, str], tasks: int, per_node: int | None, per_task: int | None) -> Gpus:
    """Find the GPUs of this host that its tasks divide, and how many each task gets.

    Slurm has divided them already if this task sees fewer than its step has on the host, or fewer than there
    are tasks.

    Args:
        environ: The environment of this task.
        tasks: The largest number of tasks on a host.
        per_node: The number of GPUs of a host; None: as many as this task sees.
        per_task: The number of GPUs of a task; None: equal parts.

    Raises:
        ClusterEnvironmentError: There are fewer than requested.
    """
    of_step = [each for each in environ.get("SLURM_STEP_GPUS", "").split(",") if each]
    seen = [each for each in environ.get(VISIBLE, "").split(",") if each not in _NONE]
    exclusive = VISIBLE in environ and len(seen) < (len(of_step) or (tasks if per_node is None else 0))
    if per_node is not None and len(seen) < per_node and not exclusive:
        seen = [str(number) for number in range(per_node)]
    sharers = 1 if exclusive else tasks
    have = len(seen) if exclusive or per_node is None else per_node
    per_task = have // sharers if per_task is None else per_task
    if per_task * sharers > have:
        raise ClusterEnvironmentError(
            f"Requested more GPUs per node than available. Each of {sharers} tasks that share {have} GPUs "
            f"is to have {per_task}. Give gpus_per_node and gpus_per_task that fit."
        )
    return Gpus(tuple(seen), per_task, exclusive or not seen)
