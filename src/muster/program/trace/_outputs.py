"""Named outputs: values that leave a traced step for the host."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.program.variables._variables import active_scope


@dataclass(frozen=True)
class Output:
    """The name of a value that a traced step hands to the host.

    Hooks hold outputs rather than the values themselves, because while a step is traced a value is a
    placeholder that must not outlive the trace.
    """

    name: str


def name_output(name: str, value: Any) -> Output:
    """Let a value leave the step that is being traced, under a name.

    Args:
        name: the name by which hooks ask for it. A name that is taken gets ``_1``, ``_2``, … appended,
            as TensorFlow does for operations.
        value: an array (or tracer) of any shape, per replica, or a ``keras.Variable``.

    Returns:
        The handle to give to hooks.

    Raises:
        TraceError: if no step is being traced.
    """
    scope = active_scope("name_output")
    unique, count = name, 0
    while unique in scope.outputs:
        count += 1
        unique = f"{name}_{count}"
    scope.outputs[unique] = scope.read(value)
    return Output(unique)


def summary_scalar(tag: str, value: Any) -> Output:
    """Let a number of the step that is being traced be written as a summary.

    Args:
        tag: the name of its curve.
        value: an array of shape (), per replica.

    Returns:
        The output that carries it.

    Raises:
        ValueError: if the value has more than one element.
        TraceError: if no step is being traced.

    Source: tensorflow/python/summary/summary.py, ``scalar``.
    """
    scope = active_scope("summary_scalar")
    array = scope.read(value)
    if array.size != 1:
        raise ValueError(f"The summary {tag!r} must be one number, got the shape {tuple(array.shape)}.")
    output = name_output(tag, array.reshape(()))
    scope.summaries[tag] = output.name
    return output


def reserve_outputs(*names: str) -> None:
    """Keep names for outputs that the traced function returns, so that ``name_output`` takes others."""
    active_scope("reserve_outputs").outputs.update(dict.fromkeys(names))


def output_of(value: Any, default_name: str) -> Output:
    """The output that already carries this very value, or a new one with ``default_name``."""
    outputs: Mapping[str, Any] = active_scope("output_of").outputs
    for name, known in outputs.items():
        if known is value:
            return Output(name)
    return name_output(default_name, value)
