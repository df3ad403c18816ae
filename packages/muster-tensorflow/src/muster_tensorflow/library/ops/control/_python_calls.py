"""``tf.numpy_function`` and ``tf.py_function``: call Python from datasets, eager code and steps."""

import concurrent.futures
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from muster.data import Placeholder, in_dataset_function, with_names_of_calls
from muster.extend import is_tracing
from muster_tensorflow.library.ops._arrays import as_array
from muster_tensorflow.library.ops._eager_values import as_host_tensor, host_value, shown_result
from muster_tensorflow.library.ops._host_placeholder import compute_on_host
from muster_tensorflow.library.ops.control._needs_values import NeedsValuesError, runs_uncompiled_instead

_Call = Callable[..., Any]


def numpy_function(
    func: _Call | None = None,
    inp: Sequence[Any] = (),
    Tout: Any = None,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """Call a Python function with NumPy arrays each time; text is ``bytes``, as in TensorFlow.

    In a step, the device waits for Python. The shapes of what a step computes are known before it runs, so
    there the function is called once more, with zeros, to see those of its results; if it takes no zeros,
    these have the shape (), as metrics do. No gradient goes through it.

    Args:
        func: Takes the arrays, returns one or a list; None to decorate such a function.
        inp: The arrays.
        Tout: The dtype of the result, or a list of dtypes.
        stateful: Unused.
        name: Unused.

    Raises:
        TraceError: A function is being traced, which would call Python once: a ``tf.function`` then runs
            uncompiled, and one of a dataset's ``map``.

    Source: tensorflow/python/ops/script_ops.py, ``numpy_function``.
    """
    if func is None:
        return lambda decorated: lambda *arrays: shown_result(numpy_function(decorated, arrays, Tout))
    if any(isinstance(value, Placeholder) for value in inp):
        return compute_on_host(numpy_function, (func, inp, Tout), {})
    return _called(func, lambda value: host_value(value, as_bytes=True), inp, Tout)


def py_function(
    func: _Call | None = None, inp: Sequence[Any] = (), Tout: Any = None, name: str | None = None
) -> Any:
    """Do as `numpy_function`; what the function takes also has ``numpy()``.

    Raises:
        TraceError: As `numpy_function` does; or a step asks for a gradient through it.
    """
    if func is None:
        return lambda decorated: lambda *arrays: shown_result(py_function(decorated, arrays, Tout))
    if any(isinstance(value, Placeholder) for value in inp):
        return compute_on_host(py_function, (func, inp, Tout), {})
    return _called(func, lambda value: as_host_tensor(host_value(value)), inp, Tout, is_differentiable=True)


def _called(func: _Call, given: _Call, inp: Sequence[Any], Tout: Any, is_differentiable: bool = False) -> Any:
    """Call a function of Python with what ``given`` makes of each value: now, or whenever a step runs."""
    func = with_names_of_calls(func)
    if not is_tracing() and not any(isinstance(value, jax.core.Tracer) for value in inp):
        return _results(func(*map(given, inp)), Tout)
    if runs_uncompiled_instead() or in_dataset_function():
        raise NeedsValuesError(
            "tf.numpy_function and tf.py_function call Python each time, with numbers, which the trace of a "
            "function does not have."
        )
    several = isinstance(Tout, list | tuple)
    results = _in_step(
        lambda *arrays: func(*map(given, arrays)), inp, Tout if several else [Tout], is_differentiable
    )
    return results if several else results[0]


def _in_step(
    call: _Call, inp: Sequence[Any], dtypes: Sequence[Any], is_differentiable: bool
) -> list[jax.Array]:
    def computed(*arrays: Any) -> list[Any]:
        results = _results(call(*map(np.asarray, arrays)), dtypes)
        return [
            np.asarray(each, jax.dtypes.canonicalize_dtype(dtype))
            for each, dtype in zip(results, dtypes, strict=True)
        ]

    def fitting(*arrays: Any) -> list[Any]:
        results = computed(*arrays)
        if [each.shape for each in results] != shapes:
            seen = f"with zeros, which gave the shapes {shapes}"
            if failure is not None:
                seen = (
                    f"with zeros, which failed ({type(failure).__name__}: {failure}): so it took (), numbers"
                )
            raise ValueError(
                f"The function of tf.numpy_function or tf.py_function returned arrays of the shapes "
                f"{[each.shape for each in results]} in a step. muster must know the shapes before the step "
                f"runs, and called the function {seen}. Let it return the same shapes for zeros, too."
            )
        return results

    arrays = [jnp.asarray(as_array(value)) for value in inp]
    shapes, failure = _shapes(computed, arrays, len(dtypes))
    kinds = [
        jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype))
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]

    @jax.custom_jvp
    def call_python(*arrays: jax.Array) -> list[jax.Array]:
        return io_callback(fitting, kinds, *arrays)  # type: ignore[no-any-return]

    @call_python.defjvp
    def refuse(primals: Any, tangents: Any) -> Any:
        raise NeedsValuesError(
            "A step asks for a gradient through tf.py_function, which calls Python: JAX has no gradient of "
            "that. Compute with operations, or stop the gradient: tf.py_function(..., "
            "[tf.stop_gradient(x)], ...)."
        )

    # What has no numbers with a fraction has no gradient, either.
    refuses = is_differentiable and any(jnp.issubdtype(each.dtype, jnp.inexact) for each in kinds)
    return call_python(*(arrays if refuses else map(jax.lax.stop_gradient, arrays)))


def _shapes(
    computed: _Call, arrays: Sequence[jax.Array], count: int
) -> tuple[list[tuple[int, ...]], Exception | None]:
    """Return the shapes of the results for zeros; or () for each, and what the function raises for these."""
    zeros = [np.zeros(each.shape, each.dtype) for each in arrays]
    # In a thread, nothing is being traced.
    with concurrent.futures.ThreadPoolExecutor(1) as thread, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return [each.shape for each in thread.submit(computed, *zeros).result()], None
        except Exception as exc:
            return [()] * count, exc


def _results(results: Any, Tout: Any) -> Any:
    """Return what a Python function has returned, in the dtypes that it says."""
    if isinstance(Tout, list | tuple):
        if not Tout:
            return []
        given = results if isinstance(results, list | tuple) else [results]
        return [_typed(result, dtype) for result, dtype in zip(given, Tout, strict=True)]
    return _typed(results, Tout)


def _typed(result: Any, dtype: Any) -> Any:
    text = isinstance(result, str | bytes)
    return result if text or np.dtype(dtype).kind == "U" else as_host_tensor(as_array(result, dtype))
