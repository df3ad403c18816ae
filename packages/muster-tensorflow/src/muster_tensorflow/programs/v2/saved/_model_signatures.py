"""Signatures of saved Keras models: their ``call``, or functions that use them."""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax

from muster import keras
from muster.data import TensorSpec
from muster.extend import ConcreteFunction, Function, FunctionProgram
from muster.saved_model import (
    PREDICT,
    Feature,
    Output,
    SignatureToSave,
    any_number_of_rows,
    symbolic_arguments,
    trace,
)
from muster_tensorflow.programs.v2._function import with_branches

DEFAULT = "serving_default"
# How many functions are rewritten for one signature.
_MOST_REWRITTEN = 20


def signatures_of(model: keras.Model, functions: Any) -> dict[str, SignatureToSave]:
    """Return the signatures of a model.

    Args:
        model: The model.
        functions: A function with specs of its arguments, or several by name; None for the model's ``call``.

    Raises:
        TypeError: They are something else.
        ValueError: A function has no specs, or the model does not say what it takes.
        SavedModelError: A function does not work for any number of rows.
    """
    if functions is None:
        structure = input_structure(model)
        call = functools.partial(_call, model)
        return {DEFAULT: _signature(DEFAULT, model, call, (structure,), {})}
    if not isinstance(functions, Mapping):
        functions = {DEFAULT: functions}
    return {name: _of_function(name, model, each) for name, each in functions.items()}


def named_outputs(model: keras.Model, outputs: Any) -> dict[str, Any]:
    """Return the outputs of a model by name: those of its output layers, else ``output_1`` and so on."""
    if isinstance(outputs, dict):
        return outputs
    arrays = outputs if isinstance(outputs, list | tuple) else [outputs]
    if isinstance(model, keras.Sequential):
        names = [model.layers[-1].name]
    else:
        names = getattr(model, "output_names", None) or [f"output_{i + 1}" for i in range(len(arrays))]
    return dict(zip(names, arrays, strict=True))


def _call(model: keras.Model, inputs: Any) -> dict[str, Any]:
    return named_outputs(model, model(inputs, training=False))


def _of_function(name: str, model: keras.Model, function: Any) -> SignatureToSave:
    named: Mapping[str, Any] = {}
    bound: tuple[Any, ...] = ()
    specs: tuple[Any, ...] | None = None
    if isinstance(function, ConcreteFunction):
        specs, named, function = function.specs, function.named, function.function
    if isinstance(function, functools.partial) and isinstance(function.func, Function):
        function, bound = function.func, function.args  # a method
    if specs is None and isinstance(function, Function):
        specs = tuple(function.input_signature or ())
    if specs is None:
        raise TypeError(
            f"The signature {name!r} must be a tf.function or what its get_concrete_function returned, got "
            f"{function!r}."
        )
    if not specs and not named:
        raise ValueError(
            f"The signature {name!r} does not say what it takes. Give its tf.function an "
            "input_signature=[tf.TensorSpec(...)], or save what its get_concrete_function returned."
        )
    called = functools.partial(function, *bound)  # which may branch on tensors
    names = [each for each in inspect.signature(called).parameters if each not in named]
    return _signature(
        name, model, lambda *args, **kwargs: _named(called(*args, **kwargs)), specs, named, names
    )


def _signature(
    name: str,
    model: keras.Model,
    function: Callable[..., dict[str, Any]],
    specs: Sequence[Any],
    named: Mapping[str, Any],
    names: Iterable[str] = (),
) -> SignatureToSave:
    """Trace a function of inputs that specs describe, with the model's variables as weights."""
    arguments = (tuple(specs), dict(named))
    paths, structure = jax.tree_util.tree_flatten_with_path(arguments)
    positions = list(names)
    inputs: dict[str, TensorSpec] = {}
    for path, spec in paths:
        if not isinstance(spec, TensorSpec):
            raise ValueError(f"The signature {name!r} takes {spec!r}, where a tf.TensorSpec is wanted.")
        key = spec.name or _name_of(path, positions)
        if key in inputs:
            raise ValueError(
                f"Two inputs of the signature {name!r} are called {key!r}: name their TensorSpecs."
            )
        inputs[key] = spec

    def body(given: Mapping[str, Any]) -> tuple[dict[str, Any], None]:
        args, kwargs = jax.tree.unflatten(structure, [given[key] for key in inputs])
        return function(*args, **kwargs), None

    shapes = symbolic_arguments(inputs, (), None)
    program = _program(body, shapes)
    computation = trace(
        lambda weights, given: program.step(dict(weights), given)[1],
        {spec.path: variable.value for spec, variable in program.used},
        shapes,
    )
    return SignatureToSave(
        method_name=PREDICT,
        inputs=inputs,
        outputs={each: Output(each) for each in computation.outputs},
        computation=computation,
        features={key: Feature(key) for key in inputs},
    )


def _program(body: Callable[..., Any], shapes: Mapping[str, Any]) -> FunctionProgram[None]:
    """Trace a function; those in it that branch on tensors, as the program's, are rewritten."""
    for _ in range(_MOST_REWRITTEN):
        try:
            with any_number_of_rows():
                return FunctionProgram(body, shapes)
        except Exception as exc:
            if not with_branches(exc, always=True):
                raise
    with any_number_of_rows():
        return FunctionProgram(body, shapes)


def _name_of(path: Sequence[Any], positions: Sequence[str]) -> str:
    """Return the name of an input: a key of a dict, else the name of the argument."""
    last = path[-1]
    if isinstance(last, jax.tree_util.DictKey):
        return str(last.key)
    first = path[1].idx
    return positions[first] if first < len(positions) else f"input_{last.idx + 1}"


def _named(outputs: Any) -> dict[str, Any]:
    if isinstance(outputs, Mapping):
        return {str(name): each for name, each in outputs.items()}
    arrays = outputs if isinstance(outputs, list | tuple) else [outputs]
    return {f"output_{number}": each for number, each in enumerate(arrays)}


def input_structure(model: keras.Model) -> Any:
    """Return the specs of what a model's ``call`` takes, in its structure.

    Raises:
        ValueError: A subclassed model takes several arguments, or an input is text.
    """
    if getattr(model, "inputs", None) is not None:
        inputs = model.inputs[0] if isinstance(model, keras.Sequential) else model.input
        count = itertools.count(1)
        return jax.tree.map(lambda each: _spec_of(each, next(count)), inputs)
    shape = (model.get_build_config() or {}).get("input_shape")
    shapes = list(shape) if isinstance(shape, tuple | list) else []
    several = len(shapes) > 0 and all(map(_is_shape, shapes))
    if not several and not _is_shape(shape):
        raise ValueError(
            f"The model {model.name!r} does not say what it takes. Save it with signatures=, a tf.function "
            "with an input_signature."
        )
    specs = [
        TensorSpec((None, *each[1:]), model.input_dtype, f"input_{number}")
        for number, each in enumerate(shapes if several else [shape], 1)
    ]
    return specs if several else specs[0]


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, tuple | list) and all(size is None or isinstance(size, int) for size in shape)


def _spec_of(tensor: Any, number: int) -> TensorSpec:
    if tensor.dtype == "string":
        raise ValueError(
            f"The input {tensor.name!r} is text, and what is exported computes numbers. Export the part of "
            "the model behind the layers that read text, tf.keras.Model(what they return, model.outputs), or "
            'save the whole model with model.save("model.keras").'
        )
    own = tensor.name.startswith("keras_tensor")  # which Keras has counted in this process
    return TensorSpec(tensor.shape, tensor.dtype, f"input_{number}" if own else tensor.name)
