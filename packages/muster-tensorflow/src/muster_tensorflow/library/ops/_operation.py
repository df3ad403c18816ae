"""Let every operation take Keras' variables and symbolic tensors where it takes arrays."""

import functools
import itertools
import operator
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar, cast
from weakref import WeakKeyDictionary

import jax
import numpy as np

from muster import DatasetError, keras
from muster.data import (
    ComputedPlaceholder,
    Placeholder,
    PlaceholderCall,
    RaggedTensor,
    SparseTensor,
    replaced,
)
from muster.program import HostValue, StandIn, known_on_host
from muster_tensorflow.library.ops._arrays import is_size
from muster_tensorflow.library.ops._constants import known_constants
from muster_tensorflow.library.ops._host_placeholder import compute_on_host, is_of_host
from muster_tensorflow.library.ops._one_shot import compute_for_next
from muster_tensorflow.library.ops.arrays._chosen import Chosen, compute_chosen
from muster_tensorflow.library.ops.control._needs_values import NeedsValuesError
from muster_tensorflow.library.ops.ragged._dynamic_shape import DynamicRaggedShape
from muster_tensorflow.patches import change

Params = ParamSpec("Params")
Result = TypeVar("Result")

_OPERATIONS: dict[str, Callable[..., Any]] = {}
# What operations do that are given a ragged or a sparse tensor.
_ON_ROWS: dict[str, Callable[..., Any]] = {}
# What steps compute of text that the host has.
OF_SHAPES = ("shape.rank", "shape.shape", "shape.size")
# What operations raise that need the values of arrays, such as sizes, and get those of traced code.
_NEED_VALUES = (
    NeedsValuesError,
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


def operation(function: Callable[Params, Result]) -> Callable[Params, Result]:
    """Let a function of arrays take variables and metrics, whose values it gets, and symbolic tensors.

    Of a symbolic tensor of Keras, which functional models are built of, it makes an operation of the model,
    as ``keras.ops`` does; of a placeholder, what an exported model will compute; of values of TensorFlow 1's
    iterators, what stands for the results of each element. These may stand anywhere in the arguments, also in
    lists, tuples and dicts.

    Args:
        function: Takes and returns arrays, or structures of them.
    """
    key = f"{function.__module__.rpartition('.')[2].lstrip('_')}.{function.__name__}"

    @functools.wraps(function)
    def call(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        found = _kind(args) if not kwargs else max(_kind(args), _kind(kwargs.values()))
        if found == _NEXT and key in OF_SHAPES and isinstance(args[0], HostValue):
            return cast(Result, cast(Any, function)(args[0].traced_zeros(), *args[1:], **kwargs))
        if found == _NEXT:
            return cast(Result, compute_for_next(call, args, kwargs))
        if found == _PLACEHOLDER:
            return cast(Result, _call_on_placeholders(call, key, args, kwargs))
        if found == _SYMBOLIC:
            return cast(Result, _call_symbolically(key, args, kwargs))
        if found == _CHOSEN:
            return cast(Result, compute_chosen(key, call, args, kwargs))
        if found == _NEITHER:
            try:
                return function(*args, **kwargs)
            except _NEED_VALUES as exc:
                if (known := known_constants((args, kwargs))) is not None:
                    return cast(Result, cast(Any, function)(*known[0], **known[1]))
                # The host has the values of the step's inputs.
                if not isinstance(exc, NeedsValuesError) or (known := known_on_host((args, kwargs))) is None:
                    raise
            return cast(Result, compute_for_next(call, *known))
        values: Any = replaced((args, kwargs), (keras.Variable, keras.Metric), _value_of)
        chosen = function if found == _VARIABLE else _ON_ROWS.get(key, function)
        return chosen(*values[0], **values[1])

    _OPERATIONS[key] = function
    vars(call)["operation"] = key
    return call


def on_rows(*operations: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate what operations do that are given a ragged or a sparse tensor.

    Args:
        operations: What `operation` has returned.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _ON_ROWS.update({vars(each)["operation"]: function for each in operations})
        return function

    return register


@keras.saving.register_keras_serializable("muster")
class Operation(keras.Operation):  # type: ignore[misc]  # keras is untyped
    """An operation of a functional model that calls a function of this package.

    Args:
        function: Its name, such as ``"nn.relu"``.
        name: The operation's name in the model; None makes one of the function's.
    """

    def __init__(self, function: str, name: str | None = None) -> None:
        short = function.rpartition(".")[2]
        super().__init__(name=name or f"{short}_{keras.backend.get_uid(short)}")
        self.function = function

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return _OPERATIONS[self.function](*args, **kwargs)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        found: list[Any] = []
        replaced((args, kwargs), keras.KerasTensor, found.append)
        # The tensors that everything is computed of, each once: sizes are computed of them anew.
        roots = list({id(root): root for each in found for root in getattr(each, "roots", [each])}.values())
        sizes: list[Any] = []
        failures: list[Exception] = []

        def compute(*values: Any) -> Any:
            known = {id(root): value for root, value in zip(roots, values, strict=True)}
            made_args, made_kwargs = replaced(
                (args, kwargs),
                keras.KerasTensor,
                lambda each: each.make(known) if isinstance(each, Sizes) else known[id(each)],
            )
            return self.call(*made_args, **made_kwargs)

        def probe(*values: Any) -> Any:
            try:
                result = compute(*values)
            except Exception as exc:
                failures.append(exc)
                raise
            if isinstance(result, np.ndarray | np.generic | int) or is_size(result):
                if failures:
                    raise failures[0]  # the sizes of a batch that Keras tries, and not of any
                sizes.append(np.asarray(result))
                return ()
            return result

        try:
            spec = _Probe(probe, self.name).compute_output_spec(*roots)
        except Exception:
            # Keras cannot make another error of each of JAX's, and hides what it was.
            if failures:
                raise failures[0] from failures[0].__cause__
            raise
        if not sizes:
            return spec
        return Sizes(sizes[-1], roots, lambda known: compute(*(known[id(root)] for root in roots)))

    def get_config(self) -> dict[str, Any]:
        return {"function": self.function, "name": self.name}


class _Probe(keras.Operation):  # type: ignore[misc]  # keras is untyped
    """Lets Keras find the shapes and dtypes of a function's results."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        super().__init__(name)
        self.call = function


class Sizes(keras.KerasTensor):  # type: ignore[misc]  # keras is untyped
    """Numbers that follow from the shapes of symbolic tensors, such as ``tf.shape(x)[0]`` in a model.

    They may be given to operations where a shape is needed.

    Args:
        value: The numbers, some of them JAX's symbols for a size that is not known.
        roots: The tensors that have the shapes.
        make: Computes the numbers of a dict with the values of these tensors, by their id.
    """

    def __init__(self, value: np.ndarray[Any, Any], roots: list[Any], make: Callable[..., Any]) -> None:
        super().__init__(value.shape, "int32" if value.dtype.kind in "iO" else str(value.dtype))
        self.roots = roots
        self.make = make
        self.known = None if any(map(is_size, value.ravel())) else value.astype(self.dtype)[()]

    def __len__(self) -> int:
        return int(self.shape[0])

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        return item(self, key)


def _operator(how: str, reflected: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return arithmetic(other, self, how) if reflected else arithmetic(self, other, how)

    return method


_OPERATORS = ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow")
for _how in _OPERATORS:
    for _own_kind in (Sizes, Chosen):
        setattr(_own_kind, f"__{_how}__", _operator(_how))
        setattr(_own_kind, f"__r{_how}__", _operator(_how, reflected=True))


def _call_symbolically(key: str, args: Any, kwargs: Any) -> Any:
    # Models are saved with the arguments, and Keras saves dtypes by their names.
    plain = replaced((args, kwargs), np.dtype, str)
    result = Operation(key)(*plain[0], **plain[1])
    return result.known if isinstance(result, Sizes) and result.known is not None else result


class _Computed(ComputedPlaceholder):
    """Computes a functional model of placeholders, as operations on them have built it."""

    __slots__ = ("tensor",)

    def __init__(
        self,
        tensor: Any,
        sources: list[Placeholder],
        call: PlaceholderCall,
        number: int,
        column_of: Placeholder | None,
    ) -> None:
        def compute(values: Any) -> Any:
            return keras.Function([_INPUTS[source] for source in sources], tensor)(list(values))

        super().__init__(tensor.dtype, tensor.shape, compute, sources, call, number, column_of)
        self.tensor = tensor


# The inputs of functional models that stand for placeholders.
_INPUTS: WeakKeyDictionary[Placeholder, Any] = WeakKeyDictionary()


def _call_on_placeholders(call: Callable[..., Any], key: str, args: Any, kwargs: Any) -> Any:
    """Return what stands for results that an exported model computes: in its step, or else on the host."""
    found: list[Placeholder] = []
    replaced((args, kwargs), Placeholder, found.append)
    column_of = _column_of(key, args, kwargs)
    if any(map(is_of_host, found)):
        return compute_on_host(call, args, kwargs, column_of)
    try:
        return _computed_in_step(key, PlaceholderCall(call, args, kwargs), found, column_of)
    except Exception as exc:
        try:  # such as numbers that become text
            return compute_on_host(call, args, kwargs)
        except DatasetError:
            raise exc from exc.__cause__


def _computed_in_step(
    key: str, call: PlaceholderCall, found: list[Placeholder], column_of: Placeholder | None
) -> Any:
    def tensor_of(placeholder: Placeholder) -> Any:
        if isinstance(placeholder, _Computed):
            return placeholder.tensor
        if placeholder not in _INPUTS:
            dtype = str(np.dtype(jax.dtypes.canonicalize_dtype(placeholder.dtype)))
            _INPUTS[placeholder] = keras.Input(batch_shape=placeholder.shape, dtype=dtype)
        return _INPUTS[placeholder]

    tensors = replaced((call.args, call.kwargs), Placeholder, tensor_of)
    numbers = itertools.count()
    sources = {
        source: None
        for each in found
        for source in (each.sources if isinstance(each, ComputedPlaceholder) else [each])
    }
    return replaced(
        _call_symbolically(key, *tensors),
        keras.KerasTensor,
        lambda tensor: _Computed(tensor, list(sources), call, next(numbers), column_of),
    )


def _column_of(key: str, args: Any, kwargs: Any) -> Placeholder | None:
    """Return the placeholder whose values, in one axis, an operation makes a column; None if it does not."""
    named = dict(zip(("input", "axis"), args, strict=False)) | kwargs
    of, axis = named.get("input"), named.get("axis")
    if key != "shape.expand_dims" or axis not in (-1, 1) or not isinstance(of, Placeholder):
        return None
    return of if type(of) is Placeholder and of.shape is not None and len(of.shape) == 1 else None


_NEITHER, _VARIABLE, _CHOSEN, _ROWS, _SYMBOLIC, _PLACEHOLDER, _NEXT = range(7)


def _kind(values: Iterable[Any]) -> int:
    """Return what there is in values, of which what comes later in the list above counts more."""
    found = _NEITHER
    for value in values:
        if isinstance(value, keras.KerasTensor):
            return _SYMBOLIC
        if isinstance(value, Placeholder):
            return _PLACEHOLDER
        if isinstance(value, StandIn):
            return _NEXT
        if isinstance(value, keras.Variable | keras.Metric):
            found = max(found, _VARIABLE)
        elif isinstance(value, Chosen):
            found = max(found, _CHOSEN)
        elif isinstance(value, RaggedTensor | SparseTensor | DynamicRaggedShape):
            found = max(found, _ROWS)
        elif isinstance(value, list | tuple | dict) and value:
            found = max(found, _kind(value.values() if isinstance(value, dict) else value))
    return found


def _value_of(variable: Any) -> Any:
    """Return the value of a variable, or the result of a metric, as TensorFlow 1 has it."""
    return variable.result() if isinstance(variable, keras.Metric) else variable.value


@operation
def item(values: Any, key: Any) -> Any:
    """Return a part of an array: ``values[key]``."""
    return values[key]


@operation
def arithmetic(left: Any, right: Any, how: str) -> Any:
    """Return the result of a function of the module `operator`, such as ``"add"``."""
    return getattr(operator, how)(left, right)


_COMPARISONS = ("lt", "le", "gt", "ge")
_METHODS = {
    "__neg__": lambda placeholder: arithmetic(0, placeholder, "sub"),
    "__getitem__": lambda placeholder, key: item(placeholder, key),
    "__iter__": None,  # else Python would take parts without an end
}
for _how in _COMPARISONS:
    setattr(Chosen, f"__{_how}__", _operator(_how))
for _name in ("__neg__", "__getitem__"):
    setattr(Chosen, _name, _METHODS[_name])


def patch() -> None:
    """Let what stands for values of serialized examples and of iterators be computed with."""
    for owner in (Placeholder, StandIn):
        for how in _OPERATORS:
            change(owner, f"__{how}__", _operator(how))
            change(owner, f"__r{how}__", _operator(how, reflected=True))
        for how in _COMPARISONS:
            change(owner, f"__{how}__", _operator(how))
        for name, method in _METHODS.items():
            change(owner, name, method)
