"""What TensorFlow's programs say about a step as a whole: its variables, its updates, their order."""

import contextlib
from typing import Any

from muster._keras import keras
from muster.compat._arrays import ArrayLike, DTypeLike, as_array
from muster.program import Output, TrainOp
from muster.program import summary_scalar as write_scalar
from muster.program import trainable_variables as variables_of_step


def Variable(
    initial_value: ArrayLike, trainable: bool = True, name: str | None = None, dtype: DTypeLike = None
) -> Any:
    """A variable: a ``keras.Variable``.

    Args:
        initial_value: an array, or a function without arguments that returns one.
        trainable: whether ``minimize`` takes it by default.
        name: its name in checkpoints.
        dtype: None takes that of the value; Python numbers become int32 and float32.

    Source: tensorflow/python/ops/variables.py, ``Variable``.
    """
    value = as_array(initial_value() if callable(initial_value) else initial_value, dtype)
    return keras.Variable(value, dtype=str(value.dtype), trainable=trainable, name=name)


def trainable_variables(scope: None = None) -> list[Any]:
    """The trainable variables that the model_fn has created so far; ``scope`` can only be None.

    Raises:
        TraceError: outside of a model_fn.
    """
    return variables_of_step()


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


def get_collection(key: str, scope: None = None) -> list[Any]:
    """What TensorFlow's programs look up in collections.

    Args:
        key: ``GraphKeys.TRAINABLE_VARIABLES``, or ``GraphKeys.UPDATE_OPS``: that one is empty, because the
            updates of BatchNormalization are part of the step already.
        scope: only None.

    Raises:
        ValueError: for any other collection.
    """
    if key == GraphKeys.TRAINABLE_VARIABLES:
        return trainable_variables()
    if key == GraphKeys.UPDATE_OPS:
        return []
    raise ValueError(
        f"There is no collection {key!r}: a step has no graph. There are "
        f"{GraphKeys.TRAINABLE_VARIABLES!r} and {GraphKeys.UPDATE_OPS!r}."
    )


def summary_scalar(
    name: str, data: ArrayLike, step: None = None, description: str | None = None, **unused: Any
) -> Output:
    """Let a number of the step be written as a summary; ``muster.program.summary_scalar`` says how.

    Args:
        name: the name of its curve.
        data: an array of one element. TensorFlow 1 calls it ``tensor``; give it by its place.
        step: only None: it is the global step.
        description: unused.
        **unused: such as ``collections`` and ``family``.
    """
    if step is not None:
        raise ValueError("A summary of a model_fn is of the global step: leave step out.")
    return write_scalar(name, data)


def disable_eager_execution() -> None:
    """Accepted: a model_fn is always traced, unless ``tf.config.run_functions_eagerly(True)`` was called.

    Source: tensorflow/python/framework/ops.py, ``disable_eager_execution``.
    """
