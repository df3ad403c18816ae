"""Ask for gradients in the middle of a step, in TensorFlow's way or JAX's.

User code asks (``minimize``, ``tape.gradient``) after the forward computation has been traced. That leaves a
marker in the trace: "the gradient of this value with respect to those". `resolve` differentiates, once the
program is complete. So the user's Python runs once, tapes nest, and inputs have gradients as variables do.
"""

import functools
import operator
import os
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from muster._errors import GradientError
from muster._frontend import frontend
from muster._keras import keras
from muster.program.gradients._resolve import gradient_p
from muster.program.gradients._shard_gradients import shard_gradients
from muster.program.variables._variable_scope import active_scope, current_scope
from muster.program.variables._variable_shards import VariableShard, whole_variables


def gradients(
    target: Any,
    sources: Sequence[Any],
    since: jax.Array | int | None = None,
    stopped: Sequence[tuple[jax.Array, jax.Array]] = (),
    inside: bool = False,
) -> list[jax.Array]:
    """Compute the gradients of the sum of a target's elements.

    Args:
        target: An array, a variable, or a nested structure of them.
        sources: Variables or arrays of floating-point dtypes; arrays per replica.
        since: What `opening` returned where a tape was opened: what had been computed before is taken as
            constant. None for nothing.
        stopped: What `place` returned where a tape stopped recording and where it went on: what was computed
            between two of them is taken as constant.
        inside: Whether the last of those parts goes on: these gradients are constant for later ones of the
            tape.

    Returns:
        One array per source, of its shape and dtype; zeros where the target does not depend on it.

    Raises:
        TraceError: Called outside of a step.
        GradientError: A dtype has no gradients. If the target depends on no source at all, this is raised
            when the step is compiled.

    Source: tensorflow/python/ops/gradients_impl.py, ``gradients``, which returns None in place of zeros.
    """
    scope = active_scope("gradients")
    wholes = whole_variables(sources)
    if any(isinstance(each, VariableShard) for each in sources):
        return shard_gradients(sources, wholes, gradients(target, wholes, since, stopped, inside))
    leaves = [scope.read(leaf) for leaf in jax.tree.leaves(target)]
    for leaf in leaves:
        _require_float(leaf, "target")
    versions = [scope.versions(source) for source in sources]
    values = [value for each in versions for value in each]
    for value in values:
        _require_float(value, "source")
    if not values or not leaves:
        return []
    distinct = {id(value): value for value in values}  # a source may be given twice
    total = functools.reduce(operator.add, (jnp.sum(leaf).astype(leaves[0].dtype) for leaf in leaves))
    if scope.mode.eager is not None:
        grads = scope.mode.eager.gradients(total, [*distinct.values()], since)  # type: ignore[arg-type]
    else:
        versioned = {id(value) for each in versions if len(each) > 1 for value in each}
        cut = tuple(place for place, known in enumerate(distinct) if known in versioned)
        marks = [] if since is None else [since]
        ends = [end for pair in stopped for end in pair]
        params = {"opened": len(marks), "stopped": len(ends), "inside": inside}
        grads = gradient_p.bind(
            total, *distinct.values(), *marks, *ends, cut=cut, where=_line_of_user(), **params
        )
    found = dict(zip(distinct, grads, strict=True))
    return [functools.reduce(operator.add, (found[id(value)] for value in each)) for each in versions]


def opening() -> jax.Array | int:
    """Mark the place where a tape is opened, for `gradients`; in a run on numbers, number the tape."""
    scope = current_scope()
    if scope is not None and scope.mode.eager is not None:
        return scope.mode.eager.opened(scope.bindings.values)
    return place()


def place() -> jax.Array:
    """Mark a place in the trace of a step, for `gradients`."""
    return jax.lax.iota(jnp.int32, 1)  # an equation of its own, of which XLA makes nothing


def _line_of_user() -> str:
    """Return the innermost file and line outside of muster and Keras."""
    folders = (Path(__file__).parents[2], Path(keras.__file__).parent, *frontend().folders)
    ours = tuple(f"{folder}{os.sep}" for folder in folders)
    frames = [f for f in traceback.extract_stack() if not f.filename.startswith(ours)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown line"


def _require_float(value: jax.Array, role: str) -> None:
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        raise GradientError(
            f"A {role} of gradients has dtype {value.dtype} and shape {tuple(value.shape)}; only "
            "floating-point values have gradients. Cast it first, or leave it out."
        )


def nested_gradients(
    target: Any,
    sources: Any,
    since: jax.Array | int | None = None,
    stopped: Sequence[tuple[jax.Array, jax.Array]] = (),
    inside: bool = False,
) -> Any:
    """Do as `gradients` for a nested structure of sources; return the gradients in that structure."""
    leaves, structure = jax.tree.flatten(sources, is_leaf=lambda x: isinstance(x, keras.Variable))
    return jax.tree.unflatten(structure, gradients(target, leaves, since, stopped, inside))


def value_and_grad(
    function: Callable[..., Any], variables: Any, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """Make a function that returns the result of another one, and its gradients with respect to variables.

    In ``strategy.run`` both are this replica's; ``optimizer.apply_gradients`` and ``optimizer.apply`` add the
    gradients of all replicas. So each replica must return its part of the loss of the global batch.

    Args:
        function: Returns the loss, a floating-point number, per replica; with ``has_aux``, (loss, anything).
        variables: A variable, or a nested structure of them.
        has_aux: Whether the function returns a pair.

    Returns:
        A function of the same arguments that returns (the function's result, gradients in the structure of
        ``variables``). The gradient with respect to a variable on which the loss does not depend is zeros.

    Raises:
        GradientError: Raised by the new function: the loss is no single number, or depends on no variable.
        TraceError: Raised by the new function: it is called outside of a step.

    Example:
        ```python
        weight = keras.Variable(3.0)
        (loss, gradient) = muster.function(lambda: muster.value_and_grad(lambda: weight * weight, weight)())()
        assert (float(loss), float(gradient)) == (9, 6)
        ```
    """

    def call(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        value = function(*args, **kwargs)
        loss = value[0] if has_aux else value
        if jnp.shape(loss) != ():
            raise GradientError(
                f"The loss must be a single number, got an array of shape {jnp.shape(loss)}. Take its sum "
                "over the examples, divided by the size of the global batch."
            )
        return value, nested_gradients(loss, variables)

    return call
