"""How the GPUs of a host are shared out among the tasks that Slurm has placed there."""

import dataclasses
from collections.abc import Mapping

from muster._errors import ClusterEnvironmentError

VISIBLE = "CUDA_VISIBLE_DEVICES"
# What stands there instead of a device where there is none: Slurm's word, and CUDA's.
_NONE = ("", "NoDevFiles", "-1")


@dataclasses.dataclass(frozen=True)
class Gpus:
    """The GPUs that a task of a step sees.

    Args:
        ids: As ``CUDA_VISIBLE_DEVICES`` names them.
        per_task: How many of them a task uses.
        are_own: Whether no other task of the host sees them, so that there is nothing to share out.
    """

    ids: tuple[str, ...]
    per_task: int
    are_own: bool

    def of_task(self, local: int) -> str | None:
        """Return what ``CUDA_VISIBLE_DEVICES`` is to be for a task; None: as it is.

        Args:
            local: The task's number on its host.
        """
        if self.are_own:
            return None
        return ",".join(self.ids[local * self.per_task : (local + 1) * self.per_task])


def find_gpus(environ: Mapping[str, str], tasks: int, per_node: int | None, per_task: int | None) -> Gpus:
    """Find the GPUs of this host, and the share of a task.

    A task that sees fewer of them than its step has on the host has its own ones already; so has one that
    sees fewer than there are tasks.

    Args:
        environ: That of this task.
        tasks: How many tasks a host has at most.
        per_node: How many GPUs a host has; None: as many as this task sees.
        per_task: How many a task gets; None: an equal share.

    Raises:
        ClusterEnvironmentError: There are not as many as asked for.
    """
    of_step = [each for each in environ.get("SLURM_STEP_GPUS", "").split(",") if each]
    seen = [each for each in environ.get(VISIBLE, "").split(",") if each not in _NONE]
    are_own = VISIBLE in environ and len(seen) < (len(of_step) or (tasks if per_node is None else 0))
    if per_node is not None and len(seen) < per_node and not are_own:
        seen = [str(number) for number in range(per_node)]
    sharers = 1 if are_own else tasks
    have = len(seen) if are_own or per_node is None else per_node
    per_task = have // sharers if per_task is None else per_task
    if per_task * sharers > have:
        raise ClusterEnvironmentError(
            f"Requested more GPUs per node than available. Each of {sharers} tasks that share {have} GPUs "
            f"is to have {per_task}. Give gpus_per_node and gpus_per_task that fit."
        )
    return Gpus(tuple(seen), per_task, are_own or not seen)
