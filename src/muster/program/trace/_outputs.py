"""Name values that leave a traced step for the host, and reduce them over the replicas."""

from dataclasses import dataclass
from typing import Any

import jax

from muster.program.variables._origins import VariableKind
from muster.program.variables._variable_scope import active_scope


@dataclass(frozen=True)
class Output:
    """The name of a value that a traced step returns to the host.

    Hooks hold outputs instead of values: while a step is traced, a value is a placeholder that must not
    outlive the trace.
    """

    name: str


def name_output(name: str, value: Any) -> Output:
    """Return a value from the step that is being traced, under a name.

    Args:
        name: The name by which hooks ask for it. A name that is taken gets ``_1``, ``_2``, … appended,
            as TensorFlow does for operations.
        value: An array (or tracer) of any shape, per replica, or a ``keras.Variable``.

    Returns:
        The handle to give to hooks.

    Raises:
        TraceError: No step is being traced.
    """
    scope = active_scope("name_output")
    return Output(scope.outputs.add(name, scope.read(value)))


def summary_scalar(tag: str, value: Any) -> Output:
    """Write a scalar of the step that is being traced as a summary.

    Args:
        tag: The name of its curve.
        value: An array of shape (), per replica.

    Returns:
        The output with its value.

    Raises:
        ValueError: The value has more than one element.
        TraceError: No step is being traced.

    Source: tensorflow/python/summary/summary.py, ``scalar``.
    """
    scope = active_scope("summary_scalar")
    array = scope.read(value)
    if array.size != 1:
        raise ValueError(f"The summary {tag!r} must be one number, got the shape {tuple(array.shape)}.")
    output = name_output(tag, array.reshape(()))
    scope.outputs.summaries[tag] = output.name
    return output


def reserve_outputs(*names: str) -> None:
    """Reserve names for outputs that the traced function returns, so that ``name_output`` avoids them."""
    active_scope("reserve_outputs").outputs.reserve(*names)


def output_of(value: Any, default_name: str) -> Output:
    """Return the output that this very value already is, or else name the value ``default_name``."""
    name = active_scope("output_of").outputs.name_of(value)
    return name_output(default_name, value) if name is None else Output(name)


def common_value(value: jax.Array) -> jax.Array:
    """Average a value over the replicas of the step that is being traced.

    Args:
        value: A floating-point array, per replica.

    Returns:
        The mean. For a loss that ``minimize`` has reduced already, what it was reduced to: mean or sum.
    """
    return active_scope("common_value").reduced(value)


def synchronize_metrics() -> None:
    """Reduce the replicas' updates of metrics, so that ``result`` is that of all replicas."""
    active_scope("synchronize_metrics").synchronize(VariableKind.METRIC)


def replica_weight() -> float:
    """Return the weight of this replica's value in the mean over all, by its rows."""
    replicas = active_scope("replica_weight").replicas
    return 1.0 if replicas is None else replicas.weight
