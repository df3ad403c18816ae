"""Fetches: nested structures of the names to read from a session."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import jax

from muster._keras import keras
from muster.program import Output, TrainOp
from muster.program.trace import output_of

Fetches: TypeAlias = str | Output | Mapping[str, "Fetches"] | Sequence["Fetches"] | None
"""A name, an `Output`, or a dict, list or tuple of these, nested as deep as one likes."""
TensorLike: TypeAlias = str | Output | jax.Array
"""A value of the step: its name, its handle, or the value itself while the step is traced."""
Tensors: TypeAlias = Mapping[str, TensorLike] | list[TensorLike] | tuple[TensorLike, ...]

_RESULTS: WeakKeyDictionary[keras.metrics.Metric, jax.Array] = WeakKeyDictionary()


def map_fetches(read: Callable[[Any], Any], fetches: Fetches) -> Any:
    """Call `read` with each name, or value of the traced step; return the results in that structure.

    Raises:
        TypeError: A fetch is neither a name nor an `Output`, such as a train_op.
    """
    match fetches:
        case str():
            return read(fetches)
        case Output(name=name):
            return read(name)
        case keras.Variable():
            return read(fetches.path)
        case dict():
            return {key: map_fetches(read, fetch) for key, fetch in fetches.items()}
        case tuple() if hasattr(fetches, "_fields"):
            return type(fetches)(*(map_fetches(read, fetch) for fetch in fetches))
        case list() | tuple():
            return type(fetches)(map_fetches(read, fetch) for fetch in fetches)
        case None:
            return None
        case keras.metrics.Metric() if fetches in _RESULTS:
            return read(_RESULTS[fetches])
        case jax.core.Tracer():  # a value that a hook was given while its step was traced
            return read(fetches)
        case TrainOp(name=name):
            raise TypeError(
                f"A session cannot run the train_op of {name!r}, as hooks of GANs do: a step is one program. "
                "Leave the hook out, and let the model_fn return all that a step trains, such as "
                "train_op=tf.group(generator_train_op, discriminator_train_op)."
            )
        case _:
            raise TypeError(
                f"A fetch must be a name, an Output, or a dict, list or tuple of these, got {fetches!r}. "
                "In model_fn, name a value with muster.program.name_output(name, value) and fetch that name."
            )


def result_of(metric: keras.metrics.Metric) -> jax.Array:
    """Return the result of a metric in the step that is being traced, and let hooks fetch it."""
    _RESULTS[metric] = metric.result()
    return _RESULTS[metric]


def as_fetch(value: TensorLike, default_name: str) -> str | Output:
    """Return a name or handle by which to read a value later.

    Args:
        value: A name, a handle, or a value of the step that is being traced, as in
            ``LoggingTensorHook({"loss": loss}, ...)`` within a model_fn.
        default_name: The name of a traced value that has none.

    Raises:
        TraceError: The value is neither a name nor a handle, and no step is being traced.
    """
    return value if isinstance(value, str | Output) else output_of(value, default_name)


def fetch_name(fetch: str | Output) -> str:
    """Return the name of a name or handle."""
    return fetch if isinstance(fetch, str) else fetch.name


def as_named_fetches(tensors: Tensors) -> dict[str, str | Output]:
    """Return names or handles by tag; a list is tagged with its names, a mapping is sorted by tag.

    Args:
        tensors: Tag -> name, handle or traced value; or a list of those.

    Returns:
        Tag -> name or handle, in the order to show them in.
    """
    if isinstance(tensors, Mapping):
        return {tag: as_fetch(tensors[tag], tag) for tag in sorted(tensors)}
    fetches = [as_fetch(tensor, f"tensor_{index}") for index, tensor in enumerate(tensors)]
    return {fetch_name(fetch): fetch for fetch in fetches}
