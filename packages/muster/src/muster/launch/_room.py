"""Compute the number of tasks for which this machine has cores and memory."""

from muster._errors import ClusterError
from muster.launch._machine import Machine
from muster.launch._plan import JobShape

# More tasks than that on a logical processor only wait for each other, and for the machine.
TASKS_A_CORE = 4
# A small Estimator that trains on the CPU has 250 MiB of its own, and shares 200 MiB of libraries.
TASK_MIB = 300

_MIB = 1 << 20


def check_room(shape: JobShape, machine: Machine) -> None:
    """Refuse a job of more tasks than a machine holds, before anything is started.

    Args:
        shape: The tasks.
        machine: The resources that they share.

    Raises:
        ClusterError: There are more than `TASKS_A_CORE` tasks for each logical processor, or tasks of
            `TASK_MIB` each need more memory than is available.
    """
    count, cores = len(shape.tasks), sum(map(len, machine.cores))
    reasons = []
    if count > TASKS_A_CORE * cores:
        reasons.append(f"{cores} cores hold {TASKS_A_CORE * cores} tasks, {TASKS_A_CORE} each")
    if machine.memory is not None and count * TASK_MIB > machine.memory // _MIB:
        needed, left = count * TASK_MIB, machine.memory // _MIB
        reasons.append(f"{needed} MiB of memory are needed, {TASK_MIB} each, and {left} MiB are available")
    if reasons:
        raise ClusterError(
            f"This machine is too small for {count} tasks: {'; '.join(reasons)}. Ask for fewer tasks, or "
            "spread the job over several machines, as `muster manifest` does. To start them all the same, "
            "give --oversubscribe, or oversubscribe=True to notebook_launcher."
        )
