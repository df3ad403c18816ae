"""``tf.function``: compiled, or run line by line where the code branches on a tensor."""

import contextlib
import functools
import inspect
import logging
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import muster
from muster import OutOfRangeError, VariableMismatchError, keras
from muster.data import DatasetIterator, GetNext, TensorSpec
from muster.distribute import Strategy
from muster.extend import CapturedDatasetError, as_traced, current_scope, fitted, is_stateless
from muster.extend import Function as CompiledFunction
from muster_tensorflow.library.ops._eager_values import HostText, shown_result
from muster_tensorflow.library.ops._patched_classes import NoNumbersError
from muster_tensorflow.library.ops.control._both_ways import assigned, both_ways
from muster_tensorflow.library.ops.control._needs_values import NeedsValuesError, uncompiled_instead
from muster_tensorflow.library.ops.control._rewritten_branches import rewrite
from muster_tensorflow.library.ops.control._rounds import noting_loops
from muster_tensorflow.programs.v2._extension_type import ExtensionType
from muster_tensorflow.programs.v2.checkpoints._deferred import is_waiting
from muster_tensorflow.programs.v2.data._dataset_loops import DatasetLoopError

_log = logging.getLogger(__name__)

# Raised for `if tensor`, `while tensor`, `range(tensor)`, and for functions of Python.
_PYTHON_NEEDS_A_VALUE = (
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerIntegerConversionError,
    NeedsValuesError,
)
# TensorFlow runs what `strategy.run` calls outside of a function eagerly: it may ask for numbers, and create
# variables each time.
UNCOMPILED_AFTER = (
    *_PYTHON_NEEDS_A_VALUE,
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    NoNumbersError,
    VariableMismatchError,
)
_IN_A_BRANCH = (
    "because Python needs the value of a tensor in %s. With tf.cond, tf.where or tf.while_loop there it is "
    "compiled."
)
_IN_A_LOOP = (
    "because of the loop over a dataset in %s. Put the body of the loop into a tf.function of its own, which "
    "is compiled, and leave the decorator out here."
)
_IN_A_WHILE_LOOP = (
    "because of a tf.while_loop that values of the function end: JAX has no gradients of it, and its shapes "
    "stay. Let it count by numbers that are known before. It failed in %s."
)
_LIBRARIES = (
    *(str(Path(module.__file__ or "").parent) for module in (jax, keras, muster)),
    str(Path(__file__).parents[2]),
)
# What calls code that cannot run uncompiled.
_ALWAYS_COMPILED = [
    str(Path(muster.__file__).parent / "distribute" / part)
    for part in ("functions/_traced_calls.py", "fit/_stateful_step.py")
]


def needed_value(exc: BaseException | None) -> BaseException | None:
    """Return the error that Python needs the value of a tensor, if that is what caused an error."""
    while exc is not None and not isinstance(exc, _PYTHON_NEEDS_A_VALUE):
        exc = exc.__cause__
    return exc


class Function(CompiledFunction):
    """A `muster.function` that also takes code with Python's ``if`` and ``while`` on tensors.

    TensorFlow rewrites such code (AutoGraph), and muster does not. Once a call finds that Python needs the
    value of a tensor, or comes to a loop over a dataset that is long or differs in each pass, it and all
    further calls run the code uncompiled, on values. The results are the same, but it takes longer, so a
    warning names the line. One that another function calls becomes a branch of the program, if all that it
    does is to compute. Calls with text always run uncompiled, and so do those with an iterator over a plain
    dataset, where it is better to pass its batches.

    Source: tensorflow/python/eager/polymorphic_function/polymorphic_function.py, ``Function``.
    """

    _uncompiled = False
    _has_run_uncompiled = False
    _runs_once = True
    _takes_captured = True

    @property
    def has_run_uncompiled(self) -> bool:
        """True if a call needed a tensor's value in Python, or took text."""
        return self._has_run_uncompiled

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the compiled function, or the Python function if it branches on tensors.

        Raises:
            TypeError: An argument does not fit the ``input_signature``.
        """
        if self.input_signature is not None:
            before = args[: _takes_instance(self.python_function)]
            args = (*before, *_fitting(args[len(before) :], self.input_signature))
        uncompiled = self._uncompiled or is_waiting() or any(map(_runs_uncompiled, (*args, *kwargs.values())))
        if current_scope() is not None or not uncompiled:
            return self._call_compiled(args, kwargs)
        return self._run_uncompiled(args, kwargs)

    def _call_compiled(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        so_far = assigned()
        failed: Exception | None = None
        outermost = uncompiled_instead() if current_scope() is None else contextlib.nullcontext()
        with noting_loops() as loops:
            try:
                with outermost:
                    return super().__call__(*args, **kwargs)
            except CapturedDatasetError:
                if current_scope() is not None:
                    raise
                # What strategy.run calls in the loop is compiled, as where the dataset is an argument.
                self._uncompiled = True
                return self._run_uncompiled(args, kwargs)
            except _PYTHON_NEEDS_A_VALUE as exc:
                if current_scope() is not None:
                    if isinstance(exc, DatasetLoopError):
                        raise
                    # If it raises, the outermost function runs on values, and calls this one again.
                    return both_ways(self.python_function, args, kwargs, exc, so_far)
                why = _IN_A_LOOP if isinstance(exc, DatasetLoopError) else _IN_A_BRANCH
                place = place_of(exc)
            except (TypeError, ValueError) as exc:
                if current_scope() is not None or is_stateless() or not loops:
                    raise
                failed, why, place = exc, _IN_A_WHILE_LOOP, place_of(exc)
        try:
            results = self._run_uncompiled(args, kwargs)
        except Exception as exc:
            if failed is not None:
                raise failed from exc
            raise
        self._uncompiled = True
        name = getattr(self.python_function, "__qualname__", self.python_function)
        _log.warning(f"%s runs uncompiled, and slower, {why}", name, place)
        return results

    def _kind_of(self, leaf: Any) -> Any:
        if isinstance(leaf, Iterator) and not isinstance(leaf, GetNext):
            return type(leaf), leaf  # one of Python's: a constant, of which tracing takes elements
        return super()._kind_of(leaf)

    def _run_uncompiled(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._has_run_uncompiled = True
        args, kwargs = as_traced((args, kwargs))
        try:
            return jax.tree.map(_as_tensor, shown_result(self.python_function(*args, **kwargs)))
        except StopIteration as exc:  # what next() of an iterator in a compiled function raises, too
            raise OutOfRangeError("End of sequence: the dataset has no further element.") from exc
        except _PYTHON_NEEDS_A_VALUE as exc:
            exc.add_note(
                f"What strategy.run calls is always compiled. Write tf.cond, tf.where or tf.while_loop in "
                f"{place_of(exc)}."
            )
            raise


def with_branches(error: BaseException, always: bool = False) -> bool:
    """Rewrite a function that failed in the code of replicas or of `fit` since it branches on a tensor.

    Others run uncompiled, unless ``always`` says that they cannot. Returns whether it was rewritten.
    """
    found: BaseException | None = error
    while found is not None and not isinstance(found, jax.errors.TracerBoolConversionError):
        found = found.__cause__ or found.__context__
    if found is None:
        return False
    passed = {frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)}
    return (always or not passed.isdisjoint(_ALWAYS_COMPILED)) and rewrite(found, _LIBRARIES)


def function(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function, once for each structure, shapes and dtypes of its arguments.

    Args:
        func: The function; None to decorate with options.
        options: ``input_signature``, the `TensorSpec` s of the arguments, for `tf.saved_model.save`; others
            (``jit_compile``, ``reduce_retracing``, …) have no effect.

    Returns:
        The function, compiled when it is called; without ``func`` a decorator.

    Source: ``tf.function``.
    """
    make = functools.partial(Function, input_signature=options.get("input_signature"))
    return make if func is None else make(func)


def _takes_instance(function: Callable[..., Any]) -> bool:
    """Return whether the first argument is a method's ``self``, which has no spec in a signature."""
    return next(iter(inspect.signature(function).parameters), None) == "self"


def _fitting(args: Sequence[Any], signature: Sequence[Any]) -> list[Any]:
    """Return arguments as arrays where their specs want them; others may be left out for defaults.

    Raises:
        TypeError: An argument does not fit its spec.
    """
    for number, (arg, spec) in enumerate(zip(args, signature, strict=False)):
        shape = getattr(arg, "shape", None)
        if shape is None or not isinstance(spec, TensorSpec) or spec.shape is None:
            continue
        if _other_kind(arg.dtype, spec.dtype):
            raise TypeError(
                f"Argument {number} must fit the function's input_signature, {spec}, got the dtype "
                f"{arg.dtype}. Convert it by tf.cast."
            )
        if len(shape) != len(spec.shape) or any(
            wanted not in (None, size) for size, wanted in zip(shape, spec.shape, strict=True)
        ):
            raise TypeError(
                f"Argument {number} must fit the function's input_signature, {spec}, got the shape "
                f"{tuple(shape)}. Give an array of that shape, or let the signature have None for its sizes."
            )
    specs = [*signature, *([None] * len(args))]
    try:
        return [
            fitted(arg, spec, str(number))
            for number, (arg, spec) in enumerate(zip(args, specs, strict=False))
        ]
    except ValueError as exc:
        raise TypeError(str(exc)) from None


def _other_kind(given: Any, wanted: Any) -> bool:
    """Return whether one dtype is of integers, and the other of fractions; 64 bits may be 32 here."""
    numbers = [each for each in map(np.dtype, (given, wanted)) if each.kind not in "OSU"]
    return len({jnp.issubdtype(each, jnp.inexact) for each in numbers}) > 1


def _runs_uncompiled(value: Any) -> bool:
    """Return whether an argument is text of an array or a Dataset, or gives the elements of a Dataset.

    Python's str is a constant.
    """
    if isinstance(value, dict | list | tuple | ExtensionType):
        return any(map(_runs_uncompiled, jax.tree.leaves(value)))
    if isinstance(value, HostText | DatasetIterator):
        return True
    return isinstance(value, np.ndarray) and value.dtype.kind in "OSU"


def _as_tensor(value: Any) -> Any:
    """Return a Python number as the array that a compiled function would return."""
    return jnp.asarray(value) if isinstance(value, bool | int | float) else value


def place_of(error: BaseException) -> str:
    """Return the line of the user's code that an error comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)] or frames
    return f"`{users[-1].line}` ({users[-1].filename}:{users[-1].lineno})"
