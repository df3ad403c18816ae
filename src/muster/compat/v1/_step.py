"""Variables, updates, collections and summaries of a step, by TensorFlow 1's names."""

import contextlib
import re
from collections.abc import Sequence

import jax

from muster import program
from muster._errors import TraceError
from muster._keras import keras
from muster.compat.ops._arrays import Array, ArrayLike, as_array
from muster.compat.ops._print import tf_print
from muster.compat.v1.losses import get_regularization_losses
from muster.program.variables import active_scope


def get_global_step(graph: None = None) -> keras.Variable | program.Output:
    """Return the variable that counts training steps; outside of a model_fn, a handle for hooks.

    Args:
        graph: Only None.

    Returns:
        In a model_fn, the variable of `muster.get_or_create_global_step`. Elsewhere, such as in a hook's
        ``begin``, an `Output` for ``SessionRunArgs``.

    Source: tensorflow/python/training/training_util.py, ``get_global_step``.
    """
    try:
        return program.get_or_create_global_step()
    except TraceError:
        return program.Output("global_step")


def trainable_variables(scope: str | None = None) -> list[keras.Variable]:
    """Return the trainable variables that the model_fn has created so far.

    Args:
        scope: A regular expression that the start of a variable's path must match; None takes all.

    Raises:
        TraceError: No model_fn is being traced.
    """
    return _in_scope(program.trainable_variables(), scope)


def global_variables(scope: str | None = None) -> list[keras.Variable]:
    """Return all variables that the model_fn has created so far, but for those of metrics.

    Args:
        scope: As for `trainable_variables`.

    Raises:
        TraceError: No model_fn is being traced.
    """
    pairs = active_scope("tf.compat.v1.global_variables").table.pairs
    return _in_scope([variable for spec, variable in pairs if not spec.local], scope)


def _in_scope(variables: list[keras.Variable], scope: str | None) -> list[keras.Variable]:
    return [each for each in variables if scope is None or re.match(scope, each.path)]


def assign(ref: keras.Variable, value: ArrayLike, **unused: object) -> jax.Array:
    """Assign a value to a variable, at this place of the step, and return it.

    Source: tensorflow/python/ops/state_ops.py, ``assign``.
    """
    assigned: jax.Array = ref.assign(as_array(value))
    return assigned


def assign_add(ref: keras.Variable, value: ArrayLike, **unused: object) -> jax.Array:
    """Add to a variable, at this place of the step, and return the sum."""
    assigned: jax.Array = ref.assign_add(as_array(value))
    return assigned


def assign_sub(ref: keras.Variable, value: ArrayLike, **unused: object) -> jax.Array:
    """Subtract from a variable, at this place of the step, and return the difference."""
    assigned: jax.Array = ref.assign_sub(as_array(value))
    return assigned


def name_scope(
    name: str | None, default_name: str | None = None, values: object = None
) -> contextlib.AbstractContextManager[object]:
    """Prefix the names of variables that are created in a ``with`` block; operations have no names.

    Args:
        name: The prefix; None takes ``default_name``.
        default_name: The prefix if ``name`` is None.
        values: Unused.

    Source: tensorflow/python/framework/ops.py, ``name_scope``.
    """
    scope: contextlib.AbstractContextManager[object] = keras.name_scope(name or default_name)
    return scope


def group(*inputs: object, name: str = "group") -> program.TrainOp:
    """Return an operation that does nothing: the step already holds the updates of the inputs.

    Source: tensorflow/python/ops/control_flow_ops.py, ``group``.
    """
    return program.TrainOp(name)


def no_op(name: str = "no_op") -> program.TrainOp:
    """Return an operation that does nothing."""
    return program.TrainOp(name)


def control_dependencies(control_inputs: object) -> contextlib.AbstractContextManager[None]:
    """Accept the call and do nothing: a step does all that its code says, in that order.

    Source: tensorflow/python/framework/ops.py, ``control_dependencies``.
    """
    return contextlib.nullcontext()


class GraphKeys:
    """The names of the collections that `get_collection` knows."""

    GLOBAL_VARIABLES = "variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    UPDATE_OPS = "update_ops"
    REGULARIZATION_LOSSES = "regularization_losses"


def get_collection(key: str, scope: str | None = None) -> list[keras.Variable] | list[jax.Array]:
    """Return a collection of what the model_fn has built so far.

    Args:
        key: One of those in `GraphKeys`. ``UPDATE_OPS`` is empty, because the step already holds the
            updates of BatchNormalization.
        scope: A regular expression that the start of a path must match; None takes all.

    Raises:
        ValueError: There is no such collection.
    """
    if key == GraphKeys.GLOBAL_VARIABLES:
        return global_variables(scope)
    if key == GraphKeys.TRAINABLE_VARIABLES:
        return trainable_variables(scope)
    if key == GraphKeys.UPDATE_OPS:
        return []
    if key == GraphKeys.REGULARIZATION_LOSSES:
        return get_regularization_losses(scope)
    raise ValueError(
        f"There is no collection {key!r}: a step has no graph. There are {GraphKeys.GLOBAL_VARIABLES!r}, "
        f"{GraphKeys.TRAINABLE_VARIABLES!r}, {GraphKeys.UPDATE_OPS!r} and "
        f"{GraphKeys.REGULARIZATION_LOSSES!r}."
    )


def summary_scalar(
    name: str,
    data: ArrayLike | None = None,
    step: None = None,
    description: str | None = None,
    *,
    tensor: ArrayLike | None = None,
    **unused: object,
) -> program.Output:
    """Write a number of the step as a summary, as ``muster.program.summary_scalar`` does.

    Args:
        name: The name of the curve.
        data: An array of one element.
        step: Only None, which is the global step.
        description: Unused.
        tensor: TensorFlow 1's name for ``data``.
        **unused: Arguments such as ``collections`` and ``family``.

    Raises:
        TypeError: Not exactly one of ``data`` and ``tensor`` is there.
        ValueError: There is a step, or more than one element.
    """
    if (data is None) == (tensor is None):
        raise TypeError(f"The summary {name!r} needs one value: give either data or tensor.")
    if step is not None:
        raise ValueError("A model_fn writes its summaries at the global step: leave step out.")
    return program.summary_scalar(name, tensor if data is None else data)


def disable_eager_execution() -> None:
    """Accept the call and do nothing: a model_fn is traced unless functions run eagerly.

    Source: tensorflow/python/framework/ops.py, ``disable_eager_execution``.
    """


disable_v2_behavior = disable_eager_execution


def enable_eager_execution(config: object = None, device_policy: object = None, **unused: object) -> None:
    """Accept the call and do nothing: what is outside of steps and functions runs eagerly anyway.

    Source: tensorflow/python/framework/ops.py, ``enable_eager_execution``.
    """


def do_nothing() -> None:
    """Accept the call and do nothing: there is no graph, and variables have one kind.

    ``reset_default_graph``, ``enable_v2_behavior``, ``enable_resource_variables`` and others.
    """


def initializer_op(*unused: object, name: str = "init") -> program.TrainOp:
    """Return an operation that does nothing: variables have values from the start.

    ``global_variables_initializer``, ``local_variables_initializer``, ``tables_initializer`` and others.
    """
    return program.TrainOp(name)


def print_(
    input_: ArrayLike,
    data: Sequence[object],
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> Array:
    """Print values to standard error each time that the step runs, and return the first argument.

    Args:
        input_: What is returned.
        data: What is printed.
        message: A text before it.
        first_n: Only None: a step prints each time.
        summarize: How many elements to print at the start and the end of each axis; None is 3.
        name: Unused.

    Raises:
        ValueError: There is a ``first_n``.

    Source: tensorflow/python/ops/logging_ops.py, ``Print``.
    """
    if first_n is not None:
        raise ValueError(f"tf.Print prints in each step and takes no first_n, got {first_n!r}: leave it out.")
    tf_print(*([] if message is None else [message]), *data, summarize=summarize or 3)
    return as_array(input_)
