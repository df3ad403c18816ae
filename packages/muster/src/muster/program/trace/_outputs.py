"""Name values that leave a traced step for the host, and reduce them over the replicas."""

from dataclasses import dataclass
from typing import Any

import jax

from muster.program.passes._markers import reread
from muster.program.variables._origins import VariableKind
from muster.program.variables._variable_scope import active_scope


@dataclass(frozen=True)
class Output:
    """The name of a value that a traced step returns to the host.

    Hooks hold outputs instead of values: while a step is traced, a value is a placeholder that must not
    outlive the trace.
    """

    name: str


@dataclass(frozen=True)
class HistogramOutput(Output):
    """The name of an array whose distribution is a summary.

    Attributes:
        buckets: In how many ranges of equal width its values are counted.
    """

    buckets: int = 30


@dataclass(frozen=True)
class ImageOutput(Output):
    """The name of a batch of images that are a summary.

    Attributes:
        max_outputs: How many images are written at most.
    """

    max_outputs: int = 3


@dataclass(frozen=True)
class TextOutput(Output):
    """The name of a text that is a summary, and known when the step is traced.

    Attributes:
        text: The text.
    """

    text: str = ""


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

    Example:
        ```python
        def model_fn(features, labels, mode):
            logits = keras.layers.Dense(1)(features)
            muster.name_output("mean", keras.ops.mean(logits))  # for LoggingTensorHook(["mean"])
            loss = keras.ops.mean((logits - labels) ** 2)
            train_op = muster.minimize(keras.optimizers.SGD(0.1), loss)
            return muster.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
        ```
    """
    scope = active_scope("name_output")
    return Output(scope.outputs.add(name, scope.read(value)))


def offer_output(name: str, value: Any) -> None:
    """Offer a value of the step that is being traced: hooks that ask for its name get it.

    It costs nothing if no hook does. A hook reads what its own process computes, of an array with rows those
    of all its replicas.

    Args:
        name: The name; one that is taken gets ``_1``, ``_2``, … appended.
        value: An array (or tracer) of any shape, per replica.

    Raises:
        TraceError: No step is being traced.
    """
    scope = active_scope("offer_output")
    scope.outputs.offer(name, scope.read(value))


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
    scope.outputs.summaries[tag] = output
    return output


def summary_histogram(tag: str, value: Any, buckets: int = 30) -> HistogramOutput:
    """Write the distribution of an array of the step that is being traced as a summary.

    The array leaves the step as it is, and its values are counted when the summary is due.

    Args:
        tag: The name of the histogram.
        value: An array of any shape, per replica; the values of all replicas of a process count together.
        buckets: In how many ranges of equal width to count its values.

    Returns:
        The output with its value.

    Raises:
        TraceError: No step is being traced.

    Source: tensorflow/python/summary/summary.py, ``histogram``.
    """
    output = HistogramOutput(name_output(tag, value).name, buckets)
    active_scope("summary_histogram").outputs.summaries[tag] = output
    return output


def summary_image(tag: str, value: Any, max_outputs: int = 3) -> ImageOutput:
    """Write the first images of a batch of the step that is being traced as a summary.

    Args:
        tag: The name of the images.
        value: Shape (batch, height, width, channels) with 1 to 4 channels; uint8, or floating-point numbers
            from 0 to 1. With several replicas, the first one's images come first.
        max_outputs: How many images at most.

    Returns:
        The output with its value.

    Raises:
        ValueError: The shape is another.
        TraceError: No step is being traced.

    Source: tensorflow/python/summary/summary.py, ``image``.
    """
    scope = active_scope("summary_image")
    array = scope.read(value)
    if array.ndim != 4 or not 1 <= array.shape[3] <= 4:
        raise ValueError(
            f"The images {tag!r} must have the shape (batch, height, width, channels) with 1 to 4 channels, "
            f"got {tuple(array.shape)}."
        )
    output = ImageOutput(name_output(tag, array[:max_outputs]).name, max_outputs)
    scope.outputs.summaries[tag] = output
    return output


def summary_text(tag: str, text: str) -> TextOutput:
    """Write a text, which is known when the step is traced, as a summary.

    Args:
        tag: The name of the text.
        text: The text, in Markdown.

    Raises:
        TraceError: No step is being traced.

    Source: tensorflow/python/summary/summary.py, ``text``.
    """
    output = TextOutput(tag, text)
    active_scope("summary_text").outputs.summaries[tag] = output
    return output


def step_summaries() -> dict[str, Output]:
    """Return the summaries that the step being traced has so far, by tag.

    Raises:
        TraceError: No step is being traced.
    """
    return dict(active_scope("step_summaries").outputs.summaries)


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
    return active_scope("common_value").assignments.reduced(value)


def synchronize_metrics() -> None:
    """Reduce the replicas' updates of metrics, so that ``result`` is that of all replicas."""
    assignments = active_scope("synchronize_metrics").assignments
    assignments.synchronize(VariableKind.METRIC, VariableKind.LOCAL)


def value_after_updates(value: jax.Array) -> jax.Array:
    """Return a value as it is once it reads variables again, now, after all updates of the step.

    A step that runs untraced returns the value as it was computed.
    """
    scope = active_scope("value_after_updates")
    if scope.mode.eager is not None or not isinstance(value, jax.core.Tracer):
        return value
    changes = []
    for _, variable in scope.bindings.table.pairs:
        held = [*scope.assignments.diverged.reduced.get(id(variable), ()), *scope.versions(variable)]
        if len(held) > 1:
            changes += [(each, held[-1]) for each in held]
    return reread(value, changes)


def replica_weight() -> float:
    """Return the weight of this replica's value in the mean over all, by its rows."""
    replicas = active_scope("replica_weight").replicas
    return 1.0 if replicas is None else replicas.weight
