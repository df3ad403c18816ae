"""Call a user's model_fn and input_fn with the arguments that they name."""

import copy
import functools
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from muster._errors import DatasetError
from muster._frontend import frontend
from muster._user_code import no_stop_iteration
from muster.distribute import InputContext
from muster.estimator._estimator_spec import EstimatorSpec, ModeKeys
from muster.estimator._run_config import RunConfig
from muster.program import left_out

_log = logging.getLogger(__name__)

ModelFn: TypeAlias = Callable[..., EstimatorSpec]
"""Takes ``features`` and any of ``labels``, ``mode``, ``params`` and ``config``."""
InputFn: TypeAlias = Callable[..., Any]
"""Takes any of ``mode``, ``params``, ``config`` and ``input_context``; returns a Dataset or arrays."""

_MODEL_FN_ARGS = {"features", "labels", "mode", "params", "config", "self"}


def argument_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the arguments that a function takes by name.

    Arguments that a `functools.partial` or a method has bound are left out, and so is ``**kwargs``.

    Source: ``fn_args`` (tensorflow/python/util/function_utils.py).
    """
    bound = function.keywords if isinstance(function, functools.partial) else {}
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(function).parameters.values()
    return tuple(each.name for each in parameters if each.kind in by_name and each.name not in bound)


def check_model_fn_args(model_fn: ModelFn | None, params: Mapping[str, Any] | None) -> None:
    """Check which arguments a model_fn takes.

    Source: ``verify_model_fn_args`` (tensorflow_estimator/python/estimator/model_fn.py).

    Args:
        model_fn: The Estimator's argument.
        params: The Estimator's argument.

    Raises:
        TypeError: ``model_fn`` is no function.
        ValueError: There is no model_fn, it does not take ``features``, it takes others than ``features``,
            ``labels``, ``mode``, ``params`` and ``config``, or ``params`` are given that it does not take.
    """
    if model_fn is None:
        raise ValueError("model_fn must be provided to Estimator.")
    if not callable(model_fn):
        raise TypeError(f"model_fn must be a function, given: {model_fn!r}.")
    names = set(argument_names(model_fn))
    if "features" not in names:
        raise ValueError(f"model_fn ({model_fn}) must include features argument.")
    if params is not None and "params" not in names:
        raise ValueError(
            f"model_fn ({model_fn}) does not include params argument, "
            f"but params ({params}) is passed to Estimator."
        )
    if params is None and "params" in names:
        _log.warning(
            "Estimator's model_fn (%s) includes params argument, but params are not passed to Estimator.",
            model_fn,
        )
    unknown = sorted(names - _MODEL_FN_ARGS)
    if unknown:
        raise ValueError(f"model_fn ({model_fn}) has following not expected args: {unknown}")


def call_model_fn(
    model_fn: ModelFn,
    features: Any,
    labels: Any,
    mode: ModeKeys,
    params: Mapping[str, Any],
    config: RunConfig,
) -> EstimatorSpec:
    """Call a model_fn with the arguments that it names.

    Source: ``Estimator._call_model_fn`` (tensorflow_estimator/python/estimator/estimator.py).

    Args:
        model_fn: A user's function that `check_model_fn_args` has passed.
        features: A batch of features.
        labels: Its labels; None if there are none.
        mode: Whether to train, evaluate or predict.
        params: The Estimator's.
        config: The Estimator's.

    Raises:
        ValueError: There are labels that the model_fn does not take, or it returns no EstimatorSpec.
    """
    names = argument_names(model_fn)
    if labels is not None and "labels" not in names:
        raise ValueError(
            f"model_fn does not take labels, but input_fn returns labels. model_fn: {model_fn}. "
            "Give it an argument `labels`, or let input_fn return features only."
        )
    given = {"labels": labels, "mode": mode, "params": _copied(params), "config": config}
    try:
        spec = model_fn(features=features, **{name: value for name, value in given.items() if name in names})
    except (AttributeError, TypeError, ValueError) as exc:  # such as Keras', which speaks of None alone
        if labels is None and "labels" in names and mode != ModeKeys.PREDICT:
            exc.add_note(
                f"The labels of this model_fn are None: the input to {mode} does not give any. Let input_fn "
                "return (features, labels), or a dataset of such pairs."
            )
        raise
    if not isinstance(spec, EstimatorSpec):
        raise ValueError(f"model_fn should return an EstimatorSpec. model_fn: {model_fn} returned: {spec!r}")
    if mode == ModeKeys.TRAIN and (updates := left_out()):
        _log.warning(
            "The step leaves out %d updates of moving averages, such as %s, since the model_fn does not run "
            "them, as in TensorFlow 1: evaluation uses the averages that training started with. Build the "
            "train_op `with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):`.",
            len(updates),
            updates[0].variable.path,
        )
    return spec


def _copied(params: Any) -> Any:
    """Return a copy of dicts and lists of params, in which functions may change what they like."""
    if isinstance(params, dict):
        copied = copy.copy(params)
        copied.update((key, _copied(value)) for key, value in params.items())
        return copied
    return [_copied(each) for each in params] if type(params) is list else params


def call_input_fn(
    input_fn: InputFn,
    mode: ModeKeys,
    params: Mapping[str, Any],
    config: RunConfig,
    input_context: InputContext | None = None,
) -> Any:
    """Call an input_fn with the arguments that it names, and return its result.

    A function that the input_fn returns is called, too.

    Source: ``Estimator._call_input_fn`` (tensorflow_estimator/python/estimator/estimator.py).

    Args:
        input_fn: A user's function; it may take any of the following arguments.
        mode: Whether to train, evaluate or predict.
        params: The Estimator's.
        config: The Estimator's.
        input_context: The part of the input that this process reads; None for all.

    Raises:
        TypeError: ``input_fn`` is no function.
        ValueError: It takes other arguments, or a front end refuses what it returns.
    """
    if not callable(input_fn):
        raise TypeError(
            f"`input_fn` must be callable, given: {input_fn!r}. Write a function that returns it: "
            "lambda: dataset."
        )
    names = argument_names(input_fn)
    given = {"mode": mode, "params": params, "config": config, "input_context": input_context}
    if unknown := [name for name in _required(input_fn) if name not in given]:
        raise ValueError(
            f"input_fn ({input_fn}) has following not expected args: {unknown}. It is called with those of "
            f"{', '.join(given)} that it names. Bind others: lambda: input_fn(...)."
        )

    def call() -> Any:
        each = given | {"params": _copied(params)}
        returned = input_fn(**{name: value for name, value in each.items() if name in names})
        while inspect.isroutine(returned):  # of programs that make input functions
            returned = returned()
        return returned

    with no_stop_iteration("The input_fn", DatasetError):
        made = frontend().input
        return call() if made is None else made(call, mode == ModeKeys.TRAIN)


def _required(function: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments without a default that a function takes."""
    by_position = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.kind in by_position and each.default is each.empty]
