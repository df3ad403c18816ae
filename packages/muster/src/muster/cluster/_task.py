"""A task: one process of a job."""

import dataclasses
import enum

from muster._errors import ClusterTypeError


class TaskType(enum.StrEnum):
    """The task types that have a role in training; a cluster may have jobs of other names, too."""

    CHIEF = "chief"
    MASTER = "master"  # the legacy chief, which also evaluates
    WORKER = "worker"
    PS = "ps"
    EVALUATOR = "evaluator"


@dataclasses.dataclass(frozen=True)
class Task:
    """One process of a job.

    Args:
        type: Its type, such as ``"worker"``: the job name in TensorFlow's ClusterSpec.
        index: Its index among the tasks of that type, from 0.
    """

    type: str
    index: int

    def __str__(self) -> str:
        return f"{self.type} {self.index}"


def check_index(value: object, owner: str) -> int:
    """Parse the index of a task.

    Args:
        value: An integer, an integral float or digits.
        owner: The task that it is the index of, in words for the message.

    Raises:
        ClusterTypeError: It is not an integer. TensorFlow truncates 1.9 to 1 and takes True for 1.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.strip().removeprefix("-").isdecimal():
        return int(value)
    raise ClusterTypeError(f"The index of {owner} must be an integer, given: {value!r}. Count from 0.")
