"""A function for one kind of arguments: it converts and checks them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from muster.data import TensorSpec, spec_of
from muster.distribute.replicas._values import is_array
from muster.program.trace import FunctionProgram

_UNKNOWN = object()
# What TensorFlow's have that is of graphs, and what to use instead.
_JAXPR = "jax.make_jaxpr(function.python_function)(*arguments) shows what a function computes"
_SIGNATURE = "structured_input_signature and structured_outputs say what it takes and returns"
_OF_GRAPHS = {
    "graph": _JAXPR,
    "function_def": _JAXPR,
    "inputs": _SIGNATURE,
    "outputs": _SIGNATURE,
}


@dataclass(frozen=True)
class ConcreteFunction:
    """A function with the specs of its arguments, for `tf.saved_model.save`.

    Args:
        function: The function.
        specs: The `TensorSpec` s of its arguments by position.
        named: Those of others by name.

    Source: tensorflow/python/eager/polymorphic_function/concrete_function.py, ``ConcreteFunction``.
    """

    function: Callable[..., Any]
    specs: tuple[Any, ...]
    named: Mapping[str, Any]

    def __getattr__(self, name: str) -> NoReturn:
        advice = f": {_OF_GRAPHS[name]}" if name in _OF_GRAPHS else ""
        raise AttributeError(f"A ConcreteFunction has no {name!r}{advice}.", name=name, obj=self)

    @property
    def structured_input_signature(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The specs and constants of its arguments, by position and by name."""
        return self.specs, dict(self.named)

    @property
    def structured_outputs(self) -> Any:
        """The `TensorSpec` s of what it returns, in its structure.

        It is traced for them; with text, which is not traced, it is called on empty text and zeros. Where
        free sizes cannot be any, those behind the first are one that a variable of the method's object has.
        """
        specs, structure = jax.tree.flatten((self.specs, dict(self.named)))

        def body(*arrays: Any) -> tuple[Any, None]:
            given = iter(arrays)
            filled = [next(given) if is_spec(spec) else spec for spec in specs]
            args, kwargs = jax.tree.unflatten(structure, filled)
            return self.function(*args, **kwargs), None

        def shapes(size: int, other: int) -> Any:
            free = [
                size,
                *[other] * max([len(spec.shape or ()) for spec in specs if is_spec(spec)], default=0),
            ]
            sizes = [
                (
                    [free[axis] if each is None else each for axis, each in enumerate(spec.shape or ())],
                    spec.dtype,
                )
                for spec in specs
                if is_spec(spec)
            ]
            if any(dtype.kind in "OSU" for _, dtype in sizes):
                return jax.tree.map(_spec_of_value, body(*[_empty(*each) for each in sizes])[0])
            arrays = [
                jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype)) for shape, dtype in sizes
            ]
            return FunctionProgram(body, *arrays).outputs

        def outputs(*sizes: tuple[int, int]) -> Any:
            return [shapes(*each) for each in sizes]

        try:
            pair = outputs((2, 2), (3, 3))
        except Exception as exc:
            if not any(None in (spec.shape or ())[1:] for spec in specs if is_spec(spec)):
                raise
            pair = self._outputs_of_a_size(outputs, exc)
        # What differs for other sizes follows from those that are None.
        return jax.tree.map(
            lambda one, other: TensorSpec(
                [a if a == b else None for a, b in zip(one.shape, other.shape, strict=True)], one.dtype
            ),
            *pair,
        )

    def _outputs_of_a_size(self, outputs: Callable[..., Any], error: Exception) -> Any:
        """Return the outputs for a size that a variable has; raise the error if there is none for it."""
        instance = next(iter(getattr(self.function, "args", ())), None)
        variables = getattr(instance, "variables", None) or ()
        for size in sorted({size for each in variables for size in each.shape}):
            try:
                return outputs((2, size), (3, size))
            except Exception:  # whatever the code raises for a size that does not fit
                continue
        raise error

    @property
    def function_type(self) -> inspect.Signature:
        """Its parameters and what it returns, with the specs and constants as annotations."""
        given = iter(self.specs)
        parameters = []
        for parameter in inspect.signature(self.function).parameters.values():
            value = self.named.get(parameter.name, next(given, parameter.default))
            annotation = value if is_spec(value) else Literal[value]
            parameters.append(parameter.replace(annotation=annotation, default=inspect.Parameter.empty))
        return inspect.Signature(parameters, return_annotation=self.structured_outputs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; what is no `TensorSpec` among its arguments may be left out.

        Numbers and lists become arrays as the specs say.

        Raises:
            TypeError: An argument is another constant than the function was made with.
            ValueError: An array has another kind of dtype than its spec.
        """
        if len(args) < len(self.specs):
            given = iter(args)
            args = tuple(next(given, each) if is_spec(each) else each for each in self.specs)
            args = tuple(each for each in args if not is_spec(each))  # the others are given by name
        given = iter(args[len(self.specs) :])
        for name in sorted(self.named, key=self._place_of):
            spec = self.named[name]
            value = kwargs[name] if name in kwargs else next(given, _UNKNOWN if is_spec(spec) else spec)
            if value is _UNKNOWN:
                continue
            if not is_spec(spec) and value != spec:
                raise TypeError(
                    f"The argument {name} of this function is {spec!r}, got {value!r}. Call the tf.function "
                    "itself, or get another concrete function."
                )
            kwargs[name] = fitted(value, spec, name)
        places = [
            fitted(value, spec, str(number))
            for number, (value, spec) in enumerate(zip(args, self.specs, strict=False))
        ]
        return self.function(*places, *given, **kwargs)

    def _place_of(self, name: str) -> int:
        names = list(inspect.signature(self.function).parameters)
        return names.index(name) if name in names else len(names)


def _empty(shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
    """Return zeros, or empty text."""
    return np.full(shape, "") if dtype.kind in "OSU" else jnp.zeros(shape, dtype)


def _spec_of_value(value: Any) -> Any:
    return as_spec(value) if isinstance(value, jax.Array) else spec_of(value)


def fitted(value: Any, spec: Any, name: str) -> Any:
    """Return an argument as its spec says: numbers and lists as arrays, and anything else as it is.

    Args:
        value: The argument.
        spec: Its `TensorSpec`, or anything else.
        name: Its name or number, for messages.

    Raises:
        ValueError: It is an array of another dtype; 64 bits may be 32 here.
    """
    if not is_spec(spec) or spec.dtype.kind == "O":
        return value
    is_number = isinstance(value, bool | int | float)
    if is_number or (isinstance(value, list) and not any(map(is_array, jax.tree.leaves(value)))):
        given = np.asarray(value)
        exact = spec.dtype.kind in "biu" and given.dtype.kind == "f"
        value = jnp.asarray(given, spec.dtype) if spec.dtype.kind != "U" and not exact else given
    dtype = getattr(value, "dtype", None)
    if isinstance(dtype, np.dtype) and _kind(dtype) != _kind(spec.dtype):
        raise ValueError(
            f"The argument {name} must fit {spec}, got the dtype {dtype}. Convert it by tf.cast, or get a "
            "concrete function for it."
        )
    return value


def _kind(dtype: np.dtype[Any]) -> Any:
    return "text" if dtype.kind in "OSU" else jax.dtypes.canonicalize_dtype(dtype)


def concrete(
    function: Callable[..., Any], of: Any, specs: Sequence[Any], named: Mapping[str, Any]
) -> ConcreteFunction:
    """Return the function for one kind of arguments, the same one each time.

    Args:
        function: The function, or a method of an instance.
        of: The `Function`, which notes the kind.
        specs: Specs by position, or arrays that stand for them; other values stand for themselves.
        named: Likewise, by name.
    """
    if not specs and not named:
        return ConcreteFunction(function, tuple(of.input_signature or ()), {})
    made = ConcreteFunction(
        function, tuple(map(as_spec, specs)), {name: as_spec(each) for name, each in named.items()}
    )
    return of.note_concrete(  # type: ignore[no-any-return]
        made, (*getattr(function, "args", ()), *made.specs), dict(made.named)
    )


def as_spec(value: Any) -> Any:
    """Return the spec of an array, and anything else as it is."""
    if not is_array(value):
        return value
    return TensorSpec([size if isinstance(size, int) else None for size in value.shape], value.dtype)


def is_spec(value: Any) -> bool:
    """Return whether a value is a `TensorSpec`."""
    return isinstance(value, TensorSpec)
