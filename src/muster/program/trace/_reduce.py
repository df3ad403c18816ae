"""What the replicas of a step agree on, for code that returns values from it."""

from typing import Any

from muster.program.variables._variables import active_scope
from muster.program.variables._watching import VariableKind

Array = Any


def common_value(value: Any) -> Array:
    """A number of the step that is being traced, as the replicas together have it.

    Args:
        value: a floating-point array, per replica.

    Returns:
        What ``minimize`` made of it, if it is the loss that was minimized, else its mean over the replicas.
    """
    scope = active_scope("common_value")
    return scope.reduced(value)


def synchronize_metrics() -> None:
    """Let the replicas' updates of metrics meet, so that ``result`` is that of all of them."""
    active_scope("synchronize_metrics").synchronize(VariableKind.METRIC)


def replica_weight() -> float:
    """What one replica's value counts for, so that those of all replicas together count for one."""
    replicas = active_scope("replica_weight").replicas
    return 1.0 if replicas is None else 1.0 / replicas.active
