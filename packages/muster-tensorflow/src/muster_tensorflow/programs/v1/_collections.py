"""Graph collections of a model_fn: its losses, and the program's own collections."""

import re
import weakref
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp

from muster import TraceError, keras
from muster.extend import current_scope, session_of_loop
from muster.program import Output, offer_output
from muster_tensorflow.library.ops._arrays import ArrayLike, as_array

# The last scope of a model_fn that added values to collections, and their handles by collection.
_LAST: ContextVar[tuple["weakref.ref[Any]", dict[Any, list[Any]]] | None] = ContextVar(
    "muster_tensorflow_collections", default=None
)


class GraphKeys:
    """The names of TensorFlow 1's collections.

    Source: tensorflow/python/framework/ops.py, ``GraphKeys``.
    """

    GLOBAL_VARIABLES = "variables"
    LOCAL_VARIABLES = "local_variables"
    METRIC_VARIABLES = "metric_variables"
    MODEL_VARIABLES = "model_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    MOVING_AVERAGE_VARIABLES = "moving_average_variables"
    SUMMARIES = "summaries"
    LOSSES = "losses"
    REGULARIZATION_LOSSES = "regularization_losses"
    UPDATE_OPS = "update_ops"
    TRAIN_OP = "train_op"
    INIT_OP = "init_op"
    LOCAL_INIT_OP = "local_init_op"
    READY_OP = "ready_op"
    SUMMARY_OP = "summary_op"
    TABLE_INITIALIZERS = "table_initializer"
    ASSET_FILEPATHS = "asset_filepaths"
    QUEUE_RUNNERS = "queue_runners"
    GLOBAL_STEP = "global_step"
    EVAL_STEP = "eval_step"
    WEIGHTS = "weights"
    BIASES = "biases"
    ACTIVATIONS = "activations"
    SAVERS = "savers"
    COND_CONTEXT = "cond_context"
    WHILE_CONTEXT = "while_context"


# A step knows by itself which variables are in these.
_OF_STEPS = frozenset(
    name
    for key, name in vars(GraphKeys).items()
    if key.endswith("_VARIABLES") and not key.startswith("MOVING")
)


def add_to_collection(name: Any, value: Any) -> None:
    """Add a value to a collection of the model_fn that is being traced; elsewhere, do nothing.

    Hooks find handles of its values in collections. In an input_fn it is the initializer of a table or an
    iterator, and these need none.

    Source: tensorflow/python/framework/ops.py, ``add_to_collection``.
    """
    collected(name).append(value)
    if isinstance(value, keras.Variable):
        _for_hooks(name).append(value)
    elif (handle := _handle(name, value)) is not None:
        _for_hooks(name).append(handle)


def _handle(name: Any, value: Any) -> Output | None:
    """Offer a value of the model_fn to hooks, and return its handle; None if it cannot be had."""
    if current_scope() is None or not isinstance(value, jax.Array):
        return None
    handle = f"collection {name}:{len(_for_hooks(name))}"
    try:
        offer_output(handle, value)
    except TraceError:  # of a branch or a loop, which cannot give values away
        return None
    return Output(handle)


def _for_hooks(name: Any) -> list[Any]:
    """Return the list of what hooks find in a collection of the model_fn that is being traced."""
    scope, last = current_scope(), _LAST.get()
    if scope is None:
        return []
    if last is None or last[0]() is not scope:
        _LAST.set(last := (weakref.ref(scope), {}))
    return last[1].setdefault(name, [])


def add_variable(names: Any, variable: Any) -> Any:
    """Add a variable to those of some collections that are a program's own, once, and return it."""
    for name in [names] if isinstance(names, str) else names or ():
        if name not in _OF_STEPS and all(each is not variable for each in collected(name)):
            add_to_collection(name, variable)
    return variable


def add_to_collections(names: Any, value: Any) -> None:
    """Add a value to each of some collections, which are a name or several."""
    for name in [names] if isinstance(names, str) else names or ():
        add_to_collection(name, value)


def collected(name: Any) -> list[Any]:
    """Return the list of what has been added to a collection of the model_fn that is being traced.

    In a hook, it has handles of the values of the model_fn, for ``SessionRunArgs``.
    """
    scope = current_scope()
    if scope is None:
        last = _LAST.get()
        return [] if last is None or session_of_loop() is None else list(last[1].get(name, ()))
    values: list[Any] = scope.shared.setdefault(("tensorflow 1", "collections"), {}).setdefault(name, [])
    return values


def in_scope(values: Sequence[Any], scope: str | None) -> list[Any]:
    """Return the values whose name begins with a scope; those without a name if there is no scope."""
    if scope is None:
        return list(values)
    return [each for each in values if re.match(scope, getattr(each, "path", getattr(each, "name", "")))]


def note_loss(path: str, loss: jax.Array, collection: str | None) -> None:
    """Collect a loss of the model_fn, if one is being traced and there is a collection to add it to."""
    if collection is not None and current_scope() is not None:
        key = ("losses", collection)
        collected(key).append((path, loss))
        if (handle := _handle(key, loss)) is not None:
            _for_hooks(key).append((path, handle))


def add_loss(loss: ArrayLike, loss_collection: str | None = GraphKeys.LOSSES) -> None:
    """Add a loss to those of the model_fn, for `get_losses` and `get_total_loss`.

    Source: tensorflow/python/ops/losses/util.py, ``add_loss``.
    """
    note_loss("", jnp.asarray(as_array(loss)), loss_collection)


def get_losses(scope: str | None = None, loss_collection: str = GraphKeys.LOSSES) -> list[Any]:
    """Return the losses that the functions of ``tf.losses`` have computed in this model_fn, and added ones.

    In a hook, they are handles of those of the model_fn.

    Args:
        scope: A regular expression that the start of a loss' name must match; None takes all.
        loss_collection: The collection that the losses were given.
    """
    found = collected(("losses", loss_collection))
    return [loss for path, loss in found if scope is None or re.match(scope, path)]
