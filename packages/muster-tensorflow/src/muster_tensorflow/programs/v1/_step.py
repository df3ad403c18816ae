"""Variables, updates, collections and summaries of a step, by TensorFlow 1's names."""

import contextlib
import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from muster import keras, program
from muster.extend import (
    ProgramScope,
    VariableKind,
    VariableSpec,
    active_scope,
    current_scope,
)
from muster_tensorflow.library.ops._arrays import Array, ArrayLike, as_array
from muster_tensorflow.library.ops._value_names import entered, leaf_of
from muster_tensorflow.library.ops._variable_methods import (
    AssignOp,
    InitializerOp,
    assignment_of_hook,
    values_of_model,
)
from muster_tensorflow.library.ops.control._print import tf_print
from muster_tensorflow.programs.v1._collections import GraphKeys, collected, get_losses, in_scope
from muster_tensorflow.programs.v1.losses import get_regularization_losses
from muster_tensorflow.programs.v1.variables._variables import get_variable, with_names


def get_global_step(graph: None = None) -> keras.Variable | program.Output:
    """Return the variable that counts training steps; outside of a model_fn, a handle for hooks.

    Args:
        graph: Only None.

    Returns:
        In a model_fn, the variable of `muster.get_or_create_global_step`. Elsewhere that of eager code, if it
        has been created; else, such as in a hook's ``begin``, an `Output` for ``SessionRunArgs``.

    Source: tensorflow/python/training/training_util.py, ``get_global_step``.
    """
    if current_scope() is None and not _of_eager_code.cache_info().currsize:
        return program.Output("global_step")
    return get_or_create_global_step()


@functools.cache
def _of_eager_code() -> keras.Variable:
    return keras.Variable(0, dtype="int32", trainable=False, name="global_step")


def get_or_create_global_step(graph: None = None) -> keras.Variable:
    """Return the variable that counts training steps; outside of a model_fn, that of eager code.

    A hook that asks for the value of either gets that of the training.

    Args:
        graph: Only None.

    Source: tensorflow/python/training/training_util.py, ``get_or_create_global_step``.
    """
    scope, is_there = current_scope(), _of_eager_code.cache_info().currsize
    if scope is None or is_there and not isinstance(scope, ProgramScope):
        return _of_eager_code()
    return program.get_or_create_global_step()


def trainable_variables(scope: str | None = None) -> list[keras.Variable]:
    """Return the trainable variables that the model_fn has created so far, called ``scope/kernel:0``.

    In a hook, and in an ``init_fn``, those of the model_fn, which ``SessionRunArgs`` and a ``Saver`` take.

    Args:
        scope: A regular expression that the start of a variable's path must match; None takes all.

    Raises:
        TraceError: No model_fn is being traced, and no hook is called.
    """
    pairs = _pairs("trainable_variables")
    return with_names(_in_scope([each for spec, each in pairs if each.trainable and not spec.local], scope))


def model_variables(scope: str | None = None) -> list[keras.Variable]:
    """Return what a model is made of: the trainable variables, and layers' others, such as moving averages.

    Args:
        scope: As for `trainable_variables`.

    Raises:
        TraceError: As for `trainable_variables`.
    """
    of_models = [
        each
        for spec, each in _pairs("model_variables")
        if spec.kind is VariableKind.WEIGHT or (each.trainable and not spec.local)
    ]
    return with_names(_in_scope(of_models, scope))


def get_local_variable(
    name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, **options: Any
) -> keras.Variable:
    """Return a variable as `get_variable` does that begins anew in each session and is in no checkpoint.

    Source: tensorflow/python/ops/variable_scope.py, ``get_local_variable``.
    """
    collections = [GraphKeys.LOCAL_VARIABLES, *(options.pop("collections", None) or ())]
    options = {**options, "trainable": False, "collections": collections}
    return get_variable(name, shape, dtype, initializer, **options)


def global_variables(scope: str | None = None) -> list[keras.Variable]:
    """Return all variables that the model_fn has created so far, but for those of metrics.

    Args:
        scope: As for `trainable_variables`.

    Raises:
        TraceError: As for `trainable_variables`.
    """
    pairs = _pairs("global_variables")
    return with_names(_in_scope([variable for spec, variable in pairs if not spec.local], scope))


def _pairs(caller: str) -> Sequence[tuple[VariableSpec, keras.Variable]]:
    """Return the variables of the model_fn that is being traced, or whose hooks or init_fn are called."""
    if (values := values_of_model()) is not None:
        return values.pairs  # type: ignore[no-any-return]
    return active_scope(f"tf.compat.v1.{caller}").bindings.table.pairs


def _in_scope(variables: list[keras.Variable], scope: str | None) -> list[keras.Variable]:
    return [each for each in variables if scope is None or re.match(scope, each.path)]


def assign(ref: keras.Variable, value: ArrayLike, **unused: object) -> jax.Array | AssignOp:
    """Assign a value to a variable, at this place of the step, and return it.

    In a hook, return what assigns to the variable of the model_fn when the hook's session runs it; the value
    may be a placeholder, which the hook feeds.

    Source: tensorflow/python/ops/state_ops.py, ``assign``.
    """
    if (of_hook := assignment_of_hook(ref, value)) is not None:
        return of_hook
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


@contextlib.contextmanager
def name_scope(name: str | None, default_name: str | None = None, values: object = None) -> Iterator[str]:
    """Prefix the names of variables that are created, and of values that are named, in a ``with`` block.

    Args:
        name: The prefix, which may have slashes; None takes ``default_name``. Of values it gets a number if
            there was a block of this name before. One with a slash at its end, as a block gives it, enters
            that block again.
        default_name: The prefix if ``name`` is None.
        values: Unused.

    Source: tensorflow/python/framework/ops.py, ``name_scope``.
    """
    whole = name or default_name or ""
    parts = leaf_of(whole) if whole.endswith("/") else whole
    with contextlib.ExitStack() as left:
        for part in filter(None, parts.split("/")):
            left.enter_context(keras.name_scope(part))
        yield left.enter_context(entered(whole))


def group(*inputs: object, name: str = "group") -> program.TrainOp:
    """Run those of the inputs that wait for it, and return an operation that does nothing more.

    Steps of optimizers wait, updates of moving averages, and ``UPDATE_OPS``; the step does all else anyway.

    Source: tensorflow/python/ops/control_flow_ops.py, ``group``.
    """
    program.run_updates(jax.tree.leaves(inputs))
    return program.TrainOp(name)


def tuple_(tensors: Sequence[Any], name: str | None = None, control_inputs: object = None) -> list[Any]:
    """Return the values as a list: a step computes all of them anyway, and what they depend on."""
    program.run_updates(jax.tree.leaves([list(tensors), control_inputs]))
    return list(tensors)


def no_op(name: str = "no_op") -> program.TrainOp:
    """Return an operation that does nothing."""
    return program.TrainOp(name)


def control_dependencies(control_inputs: object) -> contextlib.AbstractContextManager[None]:
    """Run those of the inputs that wait for it, before the code of the block.

    Steps of optimizers wait, updates of moving averages, and ``UPDATE_OPS``; the step does all else anyway.

    Source: tensorflow/python/framework/ops.py, ``control_dependencies``.
    """
    program.run_updates(jax.tree.leaves(control_inputs))
    return contextlib.nullcontext()


def local_variables(scope: str | None = None) -> list[keras.Variable]:
    """Return the variables that the model_fn has created so far of metrics, and its own local ones."""
    pairs = _pairs("local_variables")
    return with_names(_in_scope([variable for spec, variable in pairs if spec.local], scope))


def get_collection(key: str, scope: str | None = None) -> list[Any]:
    """Return a collection of what the model_fn has built so far.

    Args:
        key: One of those in `GraphKeys`, or the name of one that the program adds to. ``UPDATE_OPS`` has the
            updates of ``tf.layers``' batch normalization; the step already holds those of Keras' layers.
        scope: A regular expression that the start of a path must match; None takes all.

    Returns:
        A list; of a name that nothing was added to, an empty one.

    Raises:
        TraceError: It is one of variables, and no model_fn is being traced and no hook called; or one of
            penalties, in a hook.
    """
    added = in_scope(collected(key), scope)
    match key:
        case GraphKeys.GLOBAL_VARIABLES:
            return global_variables(scope) + added
        case GraphKeys.TRAINABLE_VARIABLES:
            return trainable_variables(scope) + added
        case GraphKeys.MODEL_VARIABLES:
            return model_variables(scope) + added
        case GraphKeys.LOCAL_VARIABLES | GraphKeys.METRIC_VARIABLES:
            return local_variables(scope) + added
        case GraphKeys.LOSSES:
            return get_losses(scope) + added
        case GraphKeys.REGULARIZATION_LOSSES:
            return get_regularization_losses(scope) + added
        case GraphKeys.UPDATE_OPS:
            return [*in_scope(program.held_updates(), scope), *added]
        case GraphKeys.GLOBAL_STEP:
            return [program.get_or_create_global_step()]
    return added


def get_collection_ref(key: str) -> list[Any]:
    """Return the list of what the program has added to a collection: it may add to the list."""
    return collected(key)


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


def initializer_op(var_list: object = None, name: str = "init") -> InitializerOp:
    """Return an operation that does nothing: variables have values from the start.

    ``global_variables_initializer``, ``local_variables_initializer``, ``tables_initializer`` and others.
    """
    return InitializerOp(name)


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
