"""Give classes of JAX and Keras TensorFlow's methods. Tried on jax 0.10.2, keras 3.15.1.

TensorFlow's programs call ``numpy()``, ``get_shape()`` and ``shape.as_list()`` on whatever they compute, and
these are classes of JAX and Keras. A class of our own around each array would be none that JAX takes. The
methods are new names, which JAX and Keras do not have; ``shape`` becomes a tuple with more methods, equal to
the one before, and so Keras' ``dtype`` a text with more attributes.
``tests/test_eager_values.py`` fails when what is used here changes.

NumPy's functions return NumPy's values, as for TensorFlow's tensors: NumPy calls the method of an array that
has one, such as JAX's ``argmax``, unless the class says otherwise.

Operators take lists of numbers beside arrays, as in ``x * [3.0, 4.0]``, which JAX refuses.

``float`` and ``int`` take arrays with one number and any axes, as in ``"%.2f" % predictions[0]``; JAX's own
take only those without axes.

Traced values have the ``name`` that the program gave them, which programs put into errors and summaries.

Optimizers get ``minimize``, which Keras 3 has dropped, and those that scale the loss the two methods by which
custom loops of TensorFlow 2 call it; here ``apply_gradients`` takes gradients of the scaled loss.

``jax.Array`` is the public base class of arrays. The classes below it and of traced values are private.
"""

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.array import ArrayImpl

from muster import TraceError, keras
from muster.data import TensorSpec
from muster.extend import ProgramScope, current_scope
from muster.optimizers import Optimizer as LegacyOptimizer
from muster.program import TrainOp
from muster_tensorflow.library.ops._arrays import as_array
from muster_tensorflow.library.ops._dtype_names import DTYPE_ATTRIBUTES
from muster_tensorflow.library.ops._method_calls import called_or_read
from muster_tensorflow.library.ops._value_names import name_of
from muster_tensorflow.library.ops.arrays._array_shape import ArrayShape
from muster_tensorflow.library.ops.arrays._tensor_shape import TensorShape
from muster_tensorflow.library.ops.control._gradients import minimize
from muster_tensorflow.patches import change, remove, wrap


def numpy_of_array(self: Any) -> Any:
    """Return the value as a new NumPy array, or as a NumPy number if it is a single one."""
    return np.array(self)[()]


def _numpy_of_variable(self: Any) -> Any:
    return self.value.numpy()


def _of_one(original: Callable[[Any], Any], convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap a conversion of arrays to Python's numbers: an array that holds one number may have axes."""

    @functools.wraps(original)
    def number(self: Any) -> Any:
        return convert(np.asarray(self).item()) if self.size == 1 else original(self)

    return number


_WITHOUT_VALUES = (np.shape, np.ndim, np.size, np.iscomplexobj, np.isrealobj)


def _array_function(
    self: Any, function: Any, types: Iterable[type], args: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """Compute a function of NumPy by NumPy, on the numbers of arrays, which no tape and no step follows.

    JAX itself calls ``np.flip`` for arrays that stay its own, in ``conv_transpose``.
    """
    if not all(issubclass(each, np.ndarray | ArrayImpl) for each in types):
        return NotImplemented
    of_jax = sys._getframe(1).f_globals.get("__name__", "").startswith("jax.")
    if function not in _WITHOUT_VALUES and not of_jax:
        args = tuple(map(_as_numpy, args))
        options = {name: _as_numpy(value) for name, value in options.items()}
    return np.ndarray.__array_function__(np.empty(0), function, (), args, options)


def _as_numpy(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, ArrayImpl) else value


def _still_scaled(self: Any, grads: Any) -> Any:
    """Return gradients as they are: `apply_gradients` unscales them."""
    return grads


_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
_COMPARISONS = ("lt", "le", "gt", "ge")


def _with_lists(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Wrap an operator: a list or tuple of numbers beside an array is one of its dtype.

    So is a large whole number, such as the ``-2 ** 32 + 1`` of masks, beside floating-point numbers.
    """

    @functools.wraps(original)
    def operate(self: Any, other: Any) -> Any:
        if type(other) is list or type(other) is tuple:
            other = as_array(other, self.dtype)
        elif type(other) is int and not -(2**31) <= other < 2**31:
            other = float(other) if jnp.issubdtype(self.dtype, jnp.floating) else other
        return original(self, other)

    return operate


class NoNumbersError(TraceError, AttributeError):
    """``numpy()`` was called on a traced value, which has none in TensorFlow."""


def _numpy_of_traced(self: Any) -> np.ndarray[Any, Any]:
    """Return the numbers that a value has in code that runs eagerly, while it is differentiated."""
    value = self.to_concrete_value()
    if value is not None:
        return np.asarray(value)
    raise NoNumbersError(
        f"numpy() was called on a value that is being traced ({self.aval.str_short()}), which has no "
        "numbers yet. Call it outside, on what the compiled function returns; tf.print shows values inside."
    )


def _numpy_of_symbolic(self: Any) -> NoReturn:
    raise TraceError(
        f"numpy() was called on {self.name!r}, a symbolic tensor of Keras, of shape "
        f"{self.shape}, which has no numbers. Call the model on data, and numpy() on what it returns."
    )


def _eval(self: Any, feed_dict: Any = None, session: Any = None) -> NoReturn:
    raise TraceError("There are no sessions: call numpy() for the value of an array.")


def operation_of(self: Any) -> TrainOp:
    """Return what made a value: programs take its name, or give it to an EstimatorSpec."""
    name, colon, _ = self.name.partition(":")
    return TrainOp(name if colon else getattr(self, "path", name))


def get_shape(self: Any) -> TensorShape:
    """Return the shape."""
    return TensorShape(self.shape)


def set_shape(self: Any, shape: Iterable[int | None] | None) -> None:
    """Check a shape; arrays know theirs.

    Raises:
        ValueError: The array has another one.
    """
    ArrayShape(self.shape).assert_is_compatible_with(shape)


class Reference:
    """Stands for a tensor or a variable in sets and as a key: it is the same for the same object.

    Args:
        of: The object.

    Source: tensorflow/python/util/object_identity.py, ``Reference``.
    """

    def __init__(self, of: Any) -> None:
        self._of = of

    def deref(self) -> Any:
        """Return the object."""
        return self._of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self._of is other._of

    def __hash__(self) -> int:
        return id(self._of)

    def __repr__(self) -> str:
        return f"<Reference wrapping {self._of!r}>"


def ref(self: Any) -> Reference:
    """Return what stands for it in sets and as a key."""
    return Reference(self)


def _truth_of_variable(self: Any) -> bool:
    """Return whether the value is true; in a model_fn True: there TensorFlow 1's variables are mere objects.

    Programs tell variables from None, as in ``average if average else variable``.
    """
    return isinstance(current_scope(), ProgramScope) or bool(self.value)


def _eagerly_too(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``minimize`` of older Keras' optimizers, which is for steps: in eager code it is as others'."""

    @functools.wraps(original)
    def minimize_loss(self: Any, loss: Any, var_list: Any = None, *args: Any, **kwargs: Any) -> Any:
        if current_scope() is not None:
            return original(self, loss, var_list, *args, **kwargs)
        return minimize(self, loss, var_list, kwargs.get("tape"))

    return minimize_loss


def _with_old_arguments(original: Callable[..., Any], parameter: str) -> Callable[..., Any]:
    """Wrap ``assign`` and its like, which also take TensorFlow's other arguments, all of them unused."""

    @functools.wraps(original)
    def assign(
        self: Any,
        value: Any = None,
        use_locking: bool = False,
        name: Any = None,
        read_value: bool = True,
        **given: Any,
    ) -> Any:
        return original(self, given.pop(parameter) if given else value)

    return assign


def _read_value(self: Any) -> Any:
    """Return the value."""
    return self.value


def patch_values() -> None:
    """Give arrays, traced values and symbolic tensors TensorFlow's methods."""
    numpy_of = {
        jax.Array: numpy_of_array,
        jax.core.Tracer: _numpy_of_traced,
        keras.KerasTensor: _numpy_of_symbolic,
    }
    for owner, numpy in numpy_of.items():
        for name, method in (
            ("numpy", numpy),
            ("get_shape", get_shape),
            ("set_shape", set_shape),
            ("ref", ref),
            ("eval", _eval),
        ):
            change(owner, name, method)
    # It only raises an error. Without it JAX's operators, as in ``array * tensor``, ask the tensor's own.
    remove(keras.KerasTensor, "__jax_array__")
    change(jax.core.Tracer, "name", property(name_of))
    change(jax.core.Tracer, "op", property(operation_of))


def patch_conversions() -> None:
    """Let NumPy compute with arrays, and Python take the number of those that hold one."""
    change(ArrayImpl, "__array_function__", _array_function)
    for name, convert in (("__float__", float), ("__int__", int)):
        change(ArrayImpl, name, _of_one(getattr(ArrayImpl, name), convert))


def patch_operators() -> None:
    """Let the operators of arrays and traced values take lists."""
    reflected = [f"r{how}" for how in _OPERATORS]
    for owner in (ArrayImpl, jax.core.Tracer):
        for name in map("__{}__".format, (*_OPERATORS, *reflected, *_COMPARISONS)):
            wrap(owner, name, _with_lists)


def patch_variables() -> None:
    """Give Keras' variables TensorFlow's methods."""
    variable = keras.Variable
    change(variable, "__bool__", _truth_of_variable)
    change(variable, "op", property(operation_of))
    change(variable, "numpy", _numpy_of_variable)
    change(variable, "get_shape", get_shape)
    change(variable, "set_shape", set_shape)
    change(variable, "ref", ref)
    change(variable, "read_value", _read_value)
    wrap(variable, "value", called_or_read)
    for name, parameter in (("assign", "value"), ("assign_add", "delta"), ("assign_sub", "delta")):
        change(variable, name, _with_old_arguments(getattr(variable, name), parameter))
    change(variable, "__hash__", object.__hash__)  # programs of TensorFlow 1 have dicts of variables


def patch_optimizers() -> None:
    """Give optimizers ``minimize``, and those that scale the loss their old methods."""
    change(keras.optimizers.Optimizer, "minimize", minimize)
    wrap(LegacyOptimizer, "minimize", _eagerly_too)
    scaling = keras.optimizers.LossScaleOptimizer
    change(scaling, "get_scaled_loss", scaling.scale_loss)
    change(scaling, "get_unscaled_gradients", _still_scaled)


def patch_shapes() -> None:
    """Give shapes and Keras' names of dtypes TensorFlow's methods and attributes."""
    for owner in (TensorSpec, ArrayImpl, jax.core.Tracer, keras.KerasTensor, keras.Variable):
        _extend(owner, "shape", _as_shape)
    for owner in (keras.KerasTensor, keras.Variable):
        _extend(owner, "dtype", _as_dtype)


class DTypeName(str):
    """The name of a dtype, as Keras' values have it, with the attributes of TensorFlow's dtypes."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name."""
        return str(self)

    def __getattr__(self, name: str) -> Any:
        if name not in DTYPE_ATTRIBUTES:
            raise AttributeError(f"A dtype has no {name}.", name=name, obj=self)
        return getattr(jax.numpy.dtype(str(self)), name)


_dtype_name = functools.cache(DTypeName)


def _extend(owner: Any, name: str, extended: Callable[[Any], Any]) -> None:
    """Let a property of a class return ``extended`` of what it returned."""
    before = getattr(owner, name)
    if not isinstance(before, property) or before.fget is None:
        return
    plain = before.fget

    def get(self: Any) -> Any:
        return extended(plain(self))

    change(owner, name, property(get, before.fset, before.fdel, before.__doc__))


def _as_dtype(found: Any) -> Any:
    return _dtype_name(found) if type(found) is str else found


def _as_shape(found: Any) -> Any:
    return found if found is None else ArrayShape(found)
