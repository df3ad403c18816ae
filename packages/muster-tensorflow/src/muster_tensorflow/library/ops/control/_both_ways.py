"""Trace both branches of a Python ``if`` on a traced tensor; the compiled step chooses one.

TensorFlow rewrites code for that (AutoGraph). Here it is called again, from its beginning, for each way
through it, as a branch of the program. This is for code that computes values from others, such as a learning
rate of the step's number: what assigns to variables or draws random numbers would do so once for each way.
"""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp

from muster.extend import current_scope
from muster_tensorflow.library.ops._arrays import as_array
from muster_tensorflow.library.ops._value_names import unnamed

_MOST_ANSWERS = 8  # one after the other; a `while` on a tensor would ask for ever
_ANSWERS: ContextVar[list[bool] | None] = ContextVar("muster_answers", default=None)


class _Undecided(BaseException):  # which no `except Exception` of the code or of Keras takes
    """The code has asked for the truth of a value for the first time."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def answer(value: Any) -> bool | None:
    """Return what the truth of a traced value is on the way that is being traced; None on no such way.

    Raises:
        _Undecided: It is the first question without an answer.
    """
    answers = _ANSWERS.get()
    if answers is None or value.size != 1:
        return None
    if not answers:
        raise _Undecided(value)
    return answers.pop(0)


def assigned() -> dict[int, Any]:
    """Return the values of the variables that the step so far has assigned to."""
    return dict(getattr(current_scope(), "state_mapping", {}))


def both_ways(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    error: Exception,
    before: Mapping[int, Any],
) -> Any:
    """Call a function that branches on values of a step.

    Args:
        function: What to call, as often as there are ways.
        args: Its arguments.
        kwargs: Its named arguments.
        error: What the call without answers raised.
        before: What `assigned` returned before that call.

    Returns:
        Its results, as arrays.

    Raises:
        Exception: `error`, if it is of something else, the code assigns to variables, asks too often, or the
            results of its ways are not alike.
    """

    def way(answers: tuple[bool, ...]) -> Any:
        token = _ANSWERS.set(list(answers))
        try:
            results = jax.tree.map(lambda value: jnp.asarray(as_array(value)), function(*args, **kwargs))
        except _Undecided as undecided:
            question = undecided.value
        else:
            _require_same(before, assigned())
            return results
        finally:
            _ANSWERS.reset(token)
        if len(answers) == _MOST_ANSWERS:
            raise error
        truth = jnp.reshape(question, ()) != 0
        return jax.lax.cond(truth, lambda: way((*answers, True)), lambda: way((*answers, False)))

    if not isinstance(error, jax.errors.TracerBoolConversionError) or _ANSWERS.get() is not None:
        raise error
    try:
        _require_same(before, assigned())
        with unnamed():
            return way(())
    except Exception as other:
        if other is error:
            raise
        raise error from other  # which may be the program's own


def _require_same(before: Mapping[int, Any], now: Mapping[int, Any]) -> None:
    if before.keys() != now.keys() or any(before[key] is not now[key] for key in now):
        raise ValueError("The code assigns to variables.")
