"""What TensorFlow's programs say about a step as a whole: its variables, its updates, their order."""

import contextlib
from typing import Any

from muster._errors import TraceError
from muster._keras import keras
from muster.compat.ops._arrays import Array, ArrayLike, as_array
from muster.compat.v1.losses import get_regularization_losses
from muster.program import Output, TrainOp, get_or_create_global_step
from muster.program import summary_scalar as write_scalar
from muster.program import trainable_variables as variables_of_step


def get_global_step(graph: None = None) -> Any:
    """The variable that counts training steps; outside of a model_fn, a handle by which hooks ask for it.

    Args:
        graph: only None.

    Returns:
        In a model_fn, what `muster.get_or_create_global_step` returns. Elsewhere, such as in a hook's
        ``begin``, an `Output` for ``SessionRunArgs``.

    Source: tensorflow/python/training/training_util.py, ``get_global_step``.
    """
    try:
        return get_or_create_global_step()
    except TraceError:
        return Output("global_step")


def trainable_variables(scope: None = None) -> list[Any]:
    """The trainable variables that the model_fn has created so far; ``scope`` can only be None.

    Raises:
        TraceError: outside of a model_fn.
    """
    return variables_of_step()


def assign(ref: Any, value: ArrayLike, **unused: Any) -> Array:
    """Give a variable a value, at this place of the step; returns the value.

    Source: tensorflow/python/ops/state_ops.py, ``assign``.
    """
    return ref.assign(as_array(value))


def assign_add(ref: Any, value: ArrayLike, **unused: Any) -> Array:
    """Add to a variable, at this place of the step; returns the sum."""
    return ref.assign_add(as_array(value))


def name_scope(
    name: str | None, default_name: str | None = None, values: Any = None
) -> contextlib.AbstractContextManager[Any]:
    """A prefix for the names of variables; operations have none.

    Args:
        name: the prefix; None takes ``default_name``.
        default_name: used if ``name`` is None.
        values: unused.

    Source: tensorflow/python/framework/ops.py, ``name_scope``.
    """
    scope: contextlib.AbstractContextManager[Any] = keras.name_scope(name or default_name)
    return scope


def group(*inputs: Any, name: str = "group") -> TrainOp:
    """One operation for several. All updates are part of the step already, so nothing is left to group.

    Source: tensorflow/python/ops/control_flow_ops.py, ``group``.
    """
    return TrainOp(name)


def no_op(name: str = "no_op") -> TrainOp:
    """An operation that does nothing."""
    return TrainOp(name)


def control_dependencies(control_inputs: Any) -> contextlib.AbstractContextManager[None]:
    """Accepted: a step does what its Python code says, in that order, and all of it.

    Source: tensorflow/python/framework/ops.py, ``control_dependencies``.
    """
    return contextlib.nullcontext()


class GraphKeys:
    """The names of the collections that `get_collection` knows."""

    TRAINABLE_VARIABLES = "trainable_variables"
    UPDATE_OPS = "update_ops"
    REGULARIZATION_LOSSES = "regularization_losses"


def get_collection(key: str, scope: str | None = None) -> list[Any]:
    """What TensorFlow's programs look up in collections.

    Args:
        key: one of those in `GraphKeys`. ``UPDATE_OPS`` is empty, because the updates of BatchNormalization
            are part of the step already.
        scope: for ``REGULARIZATION_LOSSES``, as `get_regularization_losses` has it; else only None.

    Raises:
        ValueError: for any other collection.
    """
    if key == GraphKeys.TRAINABLE_VARIABLES:
        return trainable_variables()
    if key == GraphKeys.UPDATE_OPS:
        return []
    if key == GraphKeys.REGULARIZATION_LOSSES:
        return get_regularization_losses(scope)
    raise ValueError(
        f"There is no collection {key!r}: a step has no graph. There are {GraphKeys.TRAINABLE_VARIABLES!r}, "
        f"{GraphKeys.UPDATE_OPS!r} and {GraphKeys.REGULARIZATION_LOSSES!r}."
    )


def summary_scalar(
    name: str,
    data: ArrayLike = None,
    step: None = None,
    description: str | None = None,
    *,
    tensor: ArrayLike = None,
    **unused: Any,
) -> Output:
    """Let a number of the step be written as a summary; ``muster.program.summary_scalar`` says how.

    Args:
        name: the name of its curve.
        data: an array of one element.
        step: only None: it is the global step.
        description: unused.
        tensor: what TensorFlow 1 calls ``data``.
        **unused: such as ``collections`` and ``family``.

    Raises:
        TypeError: if not one of ``data`` and ``tensor`` is given.
        ValueError: for a step, or more than one element.
    """
    if (data is None) == (tensor is None):
        raise TypeError(f"The summary {name!r} needs one value: give either data or tensor.")
    if step is not None:
        raise ValueError("A summary of a model_fn is of the global step: leave step out.")
    return write_scalar(name, tensor if data is None else data)


def disable_eager_execution() -> None:
    """Accepted: a model_fn is always traced, unless ``tf.config.run_functions_eagerly(True)`` was called.

    Source: tensorflow/python/framework/ops.py, ``disable_eager_execution``.
    """


disable_v2_behavior = disable_eager_execution
