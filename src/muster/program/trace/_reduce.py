"""Reduce values over the replicas of a step, for code that returns values from it."""

import jax

from muster.program.variables._origins import VariableKind
from muster.program.variables._variable_scope import active_scope


def common_value(value: jax.Array) -> jax.Array:
    """Reduce a number of the step that is being traced over the replicas.

    Args:
        value: A floating-point array, per replica.

    Returns:
        If it is a loss that ``minimize`` has reduced already, the result; else its mean.
    """
    return active_scope("common_value").reduced(value)


def synchronize_metrics() -> None:
    """Reduce the replicas' updates of metrics, so that ``result`` is that of all replicas."""
    active_scope("synchronize_metrics").synchronize(VariableKind.METRIC)


def replica_weight() -> float:
    """Return the weight of one replica's value; the weights of all replicas add up to one."""
    replicas = active_scope("replica_weight").replicas
    return 1.0 if replicas is None else 1.0 / replicas.active
