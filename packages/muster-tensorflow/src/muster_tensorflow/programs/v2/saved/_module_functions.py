"""Functions of a ``tf.Module`` as modules of StableHLO: exported with what they assign, loaded and called."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from muster import SavedModelError, keras
from muster.data import RaggedTensor, SparseTensor, TensorSpec
from muster.extend import ConcreteFunction, FunctionProgram, as_spec, dtype_named
from muster.saved_model import PLATFORMS, any_number_of_rows, symbolic_arguments
from muster_tensorflow.programs.v2._function import needed_value

# The ranks for which a function is exported that takes an array of any.
_RANKS = range(5)
# How many numbers are tried for a size that can be but one.
_MOST_SIZES = 1024
# Stands for the default of an argument that cannot be saved.
_LOST = "lost"
_PLAIN = (bool, int, float, str, type(None))


class FunctionToSave:
    """A function with its arguments' specs, traced.

    Args:
        name: Its name, for messages.
        python: The function, without ``self``.
        args: Its arguments by position: `TensorSpec` s in the place of arrays.
        kwargs: Those by name.

    Raises:
        SavedModelError: It cannot be traced, or not for any number of rows.

    Attributes:
        used: The variables that it uses.
        assigned: The numbers, among these, of those that it assigns to.
    """

    def __init__(
        self, name: str, python: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        bound = inspect.signature(python).bind(*args, **kwargs)
        bound.apply_defaults()
        specs: list[TensorSpec] = []

        def put(leaf: Any) -> int:
            if not isinstance(leaf, TensorSpec):
                raise SavedModelError(f"The function {name} takes {leaf!r}, which cannot be saved.")
            specs.append(leaf)
            return len(specs) - 1

        self._arguments = {each: _as_data(value, put) for each, value in bound.arguments.items()}
        self._specs = specs
        self._parameters = [
            [each.name, each.kind.name, each.default is not each.empty, _as_data(each.default, _lost)]
            for each in inspect.signature(python).parameters.values()
        ]

        structures: list[Any] = []

        def body(arrays: Mapping[str, Any]) -> tuple[list[Any], Any]:
            def take(number: int) -> Any:
                return arrays[str(number)]

            values = {each: _from_data(data, take) for each, data in self._arguments.items()}
            again = inspect.BoundArguments(bound.signature, values)
            found: list[Any] = []

            def note(leaf: Any) -> int:
                found.append(jnp.asarray(leaf.value if isinstance(leaf, keras.Variable) else leaf))
                return len(found) - 1

            structures.append(_as_data(python(*again.args, **again.kwargs), note, plain=type(None)))
            return found, None

        shapes = symbolic_arguments({str(number): each for number, each in enumerate(specs)}, (), None)
        with any_number_of_rows():
            program = FunctionProgram(body, shapes)
            paths = [spec.path for spec, _ in program.used]
            self.used = [variable for _, variable in program.used]
            self.assigned = [number for number, path in enumerate(paths) if path in program.assigned]

            def step(values: list[Any], arrays: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
                state, outputs = program.step(dict(zip(paths, values, strict=True)), arrays)
                return [state[paths[number]] for number in self.assigned], outputs

            weights = [jax.ShapeDtypeStruct(spec.shape, spec.dtype) for spec, _ in program.used]
            exported = jax.export.export(jax.jit(step), platforms=PLATFORMS)(weights, shapes)
            self.data = bytes(_serialized(exported))
        self._outputs = structures[-1]

    def as_data(self) -> dict[str, Any]:
        """Return what describes it beside its module, for JSON."""
        return {
            "parameters": self._parameters,
            "arguments": self._arguments,
            "specs": [[None if s.shape is None else [*s.shape], np.dtype(s.dtype).name] for s in self._specs],
            "outputs": self._outputs,
            "assigned": self.assigned,
        }


def of_any_rank(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Return arguments once for each rank that their specs of no rank can have."""
    leaves, structure = jax.tree.flatten((tuple(args), dict(kwargs)))
    specs = {number: leaf for number, leaf in enumerate(leaves) if isinstance(leaf, TensorSpec)}
    free = [number for number, spec in specs.items() if spec.shape is None]
    if not free:
        return [(tuple(args), dict(kwargs))]
    found = []
    for rank in _RANKS:
        for number in free:
            leaves[number] = TensorSpec((None,) * rank, leaves[number].dtype, leaves[number].name)
        found.append(jax.tree.unflatten(structure, leaves))
    return found


def of_the_only_size(
    name: str, python: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], largest: int
) -> FunctionToSave | None:
    """Return a function for the one number that its arguments' one free size can be, such as 30 features.

    The size 1 does not count, since it fits wherever arrays are broadcast.

    Args:
        name: See `FunctionToSave`.
        python: Likewise.
        args: Likewise.
        kwargs: Likewise.
        largest: The largest size to try.

    Returns:
        The function; None if no size fits or several do, or if there are more free sizes than one, beside
        the numbers of rows.

    Raises:
        Exception: Python needs the value of a tensor, so that no size helps.
    """
    leaves, structure = jax.tree.flatten((tuple(args), dict(kwargs)))
    free = [
        (number, axis)
        for number, leaf in enumerate(leaves)
        if isinstance(leaf, TensorSpec)
        for axis, size in enumerate(leaf.shape or ())
        if axis and size is None
    ]
    if len(free) != 1:
        return None
    ((number, axis),) = free
    spec, found = leaves[number], []
    for size in range(2, min(largest, _MOST_SIZES) + 1):
        leaves[number] = TensorSpec(
            (*spec.shape[:axis], size, *spec.shape[axis + 1 :]), spec.dtype, spec.name
        )
        try:
            found.append(FunctionToSave(name, python, *jax.tree.unflatten(structure, leaves)))
        except Exception as exc:  # whatever the user's code raises for a size that does not fit
            if needed_value(exc) is not None:
                raise
            continue
        if len(found) > 1:
            return None
    return found[0] if found else None


class LoadedFunction:
    """A function that was loaded: it takes arguments like those that it was saved with.

    Args:
        name: Its name, for messages.
        records: What `FunctionToSave.as_data` returned, for each kind of arguments.
        modules: The serialized module of each.
        used: The variables that each uses.

    Source: tensorflow/python/saved_model/function_deserialization.py, ``RestoredFunction``.
    """

    def __init__(
        self,
        name: str,
        records: Sequence[Mapping[str, Any]],
        modules: Sequence[bytes],
        used: Sequence[Sequence[keras.Variable]],
    ) -> None:
        self._name, self._records, self._used = name, records, used
        self._calls = [jax.jit(jax.export.deserialize(bytearray(each)).call) for each in modules]
        self.__signature__ = inspect.Signature([_parameter(*each) for each in records[0]["parameters"]])

    def get_concrete_function(self, *specs: Any, **named: Any) -> ConcreteFunction:
        """Return the function with `TensorSpec` s of its arguments, or arrays that stand for them."""
        by_name = {name: as_spec(each) for name, each in named.items()}
        return ConcreteFunction(self, tuple(map(as_spec, specs)), by_name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function.

        Raises:
            TypeError: There is no such argument.
            ValueError: It was not saved for such arguments.
        """
        bound = self.__signature__.bind(*args, **kwargs)
        bound.apply_defaults()
        for record, call, used in zip(self._records, self._calls, self._used, strict=True):
            arrays: dict[str, Any] = {}
            if _matches({"dict": record["arguments"]}, bound.arguments, record["specs"], arrays):
                assigned, outputs = call([variable.value for variable in used], arrays)
                for number, value in zip(record["assigned"], assigned, strict=True):
                    used[number].assign(value)
                return _from_data(record["outputs"], outputs.__getitem__)
        if any(map(_has_rows, jax.tree.leaves(bound.arguments, is_leaf=_has_rows))):
            raise ValueError(
                f"Could not find a matching function: {self._name} was saved, and takes dense arrays then. "
                "Give it x.to_tensor(), or tf.sparse.to_dense(x)."
            )
        known = "; ".join(str(record["specs"]) for record in self._records)
        raise ValueError(
            f"Could not find a matching function: {self._name} was saved for arrays of these shapes and "
            f"dtypes, and with these Python values, alone: {known}. Give its tf.function an input_signature "
            "with None for sizes that vary, and save it again."
        )


def _serialized(exported: jax.export.Exported) -> bytearray:
    """Serialize a module with its gradients, if it has any."""
    try:
        return exported.serialize(vjp_order=1)
    except (TypeError, ValueError, NotImplementedError):
        return exported.serialize()


def _has_rows(value: object) -> bool:
    """Return whether a value has rows of their own lengths."""
    return isinstance(value, RaggedTensor | SparseTensor)


def _lost(value: object) -> str:
    return _LOST


def _parameter(name: str, kind: str, has_default: bool, default: Any) -> inspect.Parameter:
    default = _from_data(default, lambda each: each) if has_default else inspect.Parameter.empty
    return inspect.Parameter(name, getattr(inspect.Parameter, kind), default=default)


def _as_data(value: Any, leaf: Callable[[Any], Any], plain: Any = _PLAIN) -> Any:
    """Return a structure as data for JSON, with what ``leaf`` returns in the place of arrays."""
    if isinstance(value, Mapping):
        return {"dict": {str(key): _as_data(each, leaf, plain) for key, each in value.items()}}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_as_data(each, leaf, plain) for each in value]}
    return {"plain": value} if isinstance(value, plain) else {"leaf": leaf(value)}


def _from_data(data: Mapping[str, Any], leaf: Callable[[Any], Any]) -> Any:
    ((kind, value),) = data.items()
    match kind:
        case "dict":
            return {key: _from_data(each, leaf) for key, each in value.items()}
        case "list" | "tuple":
            made = [_from_data(each, leaf) for each in value]
            return made if kind == "list" else tuple(made)
    return value if kind == "plain" else leaf(value)


def _matches(data: Mapping[str, Any], value: Any, specs: Sequence[Any], arrays: dict[str, Any]) -> bool:
    """Return whether an argument is like one that a function was saved with, and note the arrays in it."""
    ((kind, wanted),) = data.items()
    match kind:
        case "dict":
            return (
                isinstance(value, Mapping)
                and value.keys() == wanted.keys()
                and all(_matches(wanted[key], value[key], specs, arrays) for key in wanted)
            )
        case "list" | "tuple":
            return (
                isinstance(value, list | tuple)
                and len(value) == len(wanted)
                and all(_matches(one, other, specs, arrays) for one, other in zip(wanted, value, strict=True))
            )
        case "plain":
            return type(value) is type(wanted) and bool(value == wanted)
    if wanted == _LOST:
        return True
    if _has_rows(value):
        return False
    shape, dtype = specs[wanted]
    if isinstance(value, keras.Variable):
        value = value.value
    given = value if hasattr(value, "dtype") else np.asarray(value)
    fits = len(given.shape) == len(shape) and all(
        size in (None, here) for size, here in zip(shape, given.shape, strict=True)
    )
    same = given.dtype == dtype_named(dtype) or (given is not value and given.dtype.kind in "bif")
    if not (fits and (same or jax.dtypes.canonicalize_dtype(dtype_named(dtype)) == given.dtype)):
        return False
    arrays[str(wanted)] = jnp.asarray(given, jax.dtypes.canonicalize_dtype(dtype_named(dtype)))
    return True
