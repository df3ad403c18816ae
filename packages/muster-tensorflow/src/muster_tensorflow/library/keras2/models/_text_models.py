"""Text inputs of functional and sequential models: run the layers that read text on the host, before steps.

No array of JAX holds text. A model that begins with ``keras.Input(dtype="string")``, or with a layer that
computes on the host, is split where text has become numbers: the first part runs on the host, for each batch
of `fit`, `evaluate` and `predict` where input functions run; the steps compute the rest. A call of the model
with text does both.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from muster import keras
from muster.data import (
    Dataset,
    RaggedTensor,
    as_arrays,
    column_names,
)
from muster.distribute import DatasetCreator, DistributedDataset
from muster_tensorflow.library.keras2.models._column_models import ColumnPart, column_part
from muster_tensorflow.library.keras2.models._ragged_models import RaggedPart, ragged_part
from muster_tensorflow.library.keras2.models._text_calls import (
    holds_text_of_steps,
    passing_text,
    text_tensors,
)
from muster_tensorflow.library.ops._one_shot import compute_for_next
from muster_tensorflow.library.ops._operation import Operation
from muster_tensorflow.patches import change, change_item, wrap
from muster_tensorflow.programs.v2.layers._host_layer import HostLayer, is_text, of_steps, spec_by_example

_Functional = keras.src.models.functional.Functional
_Function = keras.Function

# The names of what the steps get: a dict, which keeps its order when JAX sorts it.
_PART = "from_text_"

# What Keras' operations and layers mean for text.
_ON_TEXT: dict[str, Callable[[Any, Any], Any]] = {
    "ExpandDims": lambda op, x: np.expand_dims(x, op.axis),
    "Squeeze": lambda op, x: np.squeeze(x, op.axis),
    "Reshape": lambda op, x: x.reshape(
        (len(x), *op.target_shape) if isinstance(op, keras.layers.Layer) else op.newshape
    ),
    "Flatten": lambda op, x: x.reshape(len(x), -1),
    "Concatenate": lambda op, x: np.concatenate(x, op.axis),
    "Identity": lambda op, x: x,
}


class TextSplit:
    """A functional model in two parts: from text to numbers, and from these to its outputs.

    Args:
        model: The model.

    Attributes:
        rest: The part that steps compute, of a list of numbers.

    Raises:
        ValueError: An output of the model is text.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        if any(map(is_text, model.outputs)):
            raise ValueError(
                f"The model {model.name!r} returns text, and no array of JAX holds text: let it return "
                "numbers, and look these up in what it returned."
            )
        on_host = {id(each) for each in model.inputs if is_text(each)}
        results: list[Any] = []
        wanted = {id(each) for each in model.outputs}
        for depth in sorted(model._nodes_by_depth, reverse=True):
            for node in model._nodes_by_depth[depth]:
                if node.is_input:
                    continue
                if runs_on_host(node.operation) or any(map(is_text, node.input_tensors)):
                    on_host.update(map(id, node.outputs))
                    results += node.outputs
                else:
                    wanted.update(map(id, node.input_tensors))
        read = [each for each in results if id(each) in wanted and not is_text(each)]
        passed = [each for each in model.inputs if id(each) in wanted and id(each) not in on_host]
        self._passed = [number for number, each in enumerate(model.inputs) if any(each is x for x in passed)]
        self._dtypes = [each.dtype for each in (*passed, *read)]
        self._first = _Function(list(model.inputs), read) if read else None
        self.rest = _Function([*passed, *read], model._outputs_struct)
        self._trained = [
            op.name
            for op in (self._first._operations if self._first is not None else ())
            if isinstance(op, keras.layers.Layer) and op.trainable_variables
        ]

    def require_no_weights(self) -> None:
        """Check that no weight that is to be trained is in the part that runs on the host.

        Raises:
            ValueError: There is one.
        """
        if self._trained:
            raise ValueError(
                f"The layer {self._trained[0]!r} has weights, and text comes after it or goes into it: no "
                "gradient reaches it. Let only layers without weights, such as StringLookup, take text."
            )

    def content_key(self) -> Any:
        """Return what makes splits equal that compute on the host for a step."""
        operations = self._first._operations if self._first is not None else ()
        return [
            each.content_key() if isinstance(each, HostLayer) else [type(each).__qualname__, each.name]
            for each in operations
        ]

    def parts(self, inputs: Any) -> dict[str, Any]:
        """Return what the steps get of inputs; of what they have got already, the same."""
        if is_parts(inputs):
            return dict(inputs)
        values = [
            _ranked(each, tensor)
            for each, tensor in zip(_flat(inputs, self._model), self._model.inputs, strict=True)
        ]
        read = self._first and self._first._run_through_graph(values, operation_fn=_on_host)
        found = [*(values[number] for number in self._passed), *jax.tree.leaves(read)]
        return {
            f"{_PART}{number:03}": np.asarray(value).astype(of_steps(dtype), copy=False)
            for number, (value, dtype) in enumerate(zip(found, self._dtypes, strict=True))
        }


def _parts_in_step(split: TextSplit, inputs: Any) -> dict[str, Any]:
    return split.parts(inputs)


def runs_on_host(operation: Any) -> bool:
    """Return whether a layer computes on the host, or is a model that begins with text."""
    if isinstance(operation, keras.Sequential):
        layers = operation._layers
        return bool(layers) and (
            runs_on_host(layers[0]) or any(map(is_text, getattr(operation._functional, "inputs", ())))
        )
    if isinstance(operation, _Functional):
        return any(map(is_text, operation.inputs))
    return isinstance(operation, HostLayer)


def split_of(model: Any) -> TextSplit | None:
    """Return the parts of a model that has layers of the host; None for other models."""
    functional = getattr(model, "_functional", None) if isinstance(model, keras.Sequential) else model
    if not isinstance(functional, _Functional):
        return None
    kept = functional.__dict__  # behind Keras' back, which would track it
    if "muster_text_split" not in kept:
        reads = any(map(is_text, functional.inputs)) or any(
            runs_on_host(node.operation) or any(map(is_text, node.input_tensors))
            for nodes in functional._nodes_by_depth.values()
            for node in nodes
            if not node.is_input
        )
        kept["muster_text_split"] = TextSplit(functional) if reads else None
    split: TextSplit | None = kept["muster_text_split"]
    return split


def is_parts(inputs: Any) -> bool:
    """Return whether inputs are what `TextSplit.parts` returns."""
    return isinstance(inputs, dict) and bool(inputs) and all(str(key).startswith(_PART) for key in inputs)


def _flat(inputs: Any, model: Any) -> list[Any]:
    """Return the inputs in the order of the model's, as arrays."""
    names = [each.name for each in model.inputs]
    if _is_nested(model._inputs_struct):
        return _along(model._inputs_struct, inputs, model.name)
    if isinstance(inputs, Mapping):
        known = model._inputs_struct
        keys = list(known) if isinstance(known, dict) else names
        if missing := [key for key in keys if key not in inputs]:
            raise ValueError(
                f"The model {model.name!r} has an input {missing[0]!r}, and the data has {', '.join(inputs)}."
            )
        ordered = [inputs[key] for key in sorted(keys)] if isinstance(known, dict) else None
        return [*map(_array, ordered or [inputs[key] for key in keys])]
    if len(names) == 1 and not (
        isinstance(inputs, list | tuple) and len(inputs) == 1 and np.ndim(inputs[0]) > 0
    ):
        return [_array(inputs)]
    if not isinstance(inputs, list | tuple) or len(inputs) != len(names):
        raise ValueError(
            f"The model {model.name!r} has the inputs {', '.join(names)}: give a list or a dict of them, got "
            f"{type(inputs).__name__}."
        )
    return [*map(_array, inputs)]


def _is_nested(structure: Any) -> bool:
    parts = structure.values() if isinstance(structure, dict) else structure
    return isinstance(structure, dict | list | tuple) and any(
        isinstance(each, dict | list | tuple) for each in parts
    )


def _along(structure: Any, inputs: Any, name: str) -> list[Any]:
    """Return the inputs for a structure of symbolic tensors, in the order in which Keras flattens it."""
    if isinstance(structure, dict):
        if not isinstance(inputs, Mapping) or structure.keys() - inputs.keys():
            raise ValueError(f"The model {name!r} takes a dict of {', '.join(structure)}, got {inputs!r}.")
        return [leaf for key in sorted(structure) for leaf in _along(structure[key], inputs[key], name)]
    if isinstance(structure, list | tuple):
        if not isinstance(inputs, list | tuple) or len(inputs) != len(structure):
            raise ValueError(f"The model {name!r} takes a list of {len(structure)} inputs, got {inputs!r}.")
        pairs = zip(structure, inputs, strict=True)
        return [leaf for part, given in pairs for leaf in _along(part, given, name)]
    return [_array(inputs)]


def _array(value: Any) -> Any:
    return value if isinstance(value, RaggedTensor | jax.core.Tracer) else np.asarray(value)


def _ranked(value: Any, tensor: Any) -> Any:
    """Return an array with the number of axes that an input has, as Keras does: the last may have size 1."""
    if np.ndim(value) == len(tensor.shape) - 1 and tensor.shape[-1] == 1:
        return value[..., None]
    if np.ndim(value) == len(tensor.shape) + 1 and np.shape(value)[-1] == 1:
        return value[..., 0]
    return value


def _on_host(operation: Any) -> Callable[..., Any]:
    """Return what an operation of the first part does with NumPy arrays."""
    if isinstance(operation, HostLayer | Operation | keras.layers.Lambda):
        return operation.call

    def run(*args: Any, **kwargs: Any) -> Any:
        has_text = any(np.asarray(each).dtype.kind in "USO" for each in jax.tree.leaves((args, kwargs)))
        if isinstance(operation, keras.Model) or not has_text:
            return operation(*args, **kwargs)
        meaning = _ON_TEXT.get(type(operation).__name__)
        return operation.call(*args, **kwargs) if meaning is None else meaning(operation, *args)

    return run


def _mapped(split: TextSplit | ColumnPart | RaggedPart, data: Any) -> Any:
    """Return data for `fit`, or its inputs, with what the steps get in place of text."""

    def each(batch: Any) -> Any:
        if isinstance(batch, tuple | list) and len(batch) in (2, 3) and isinstance(data, Iterator):
            batch = tuple(batch)  # of generators Keras takes lists, too
        if isinstance(batch, tuple):
            return (split.parts(batch[0]), *batch[1:])
        return split.parts(batch)

    if isinstance(data, Dataset):
        return data.map(lambda *batch: each(batch if len(batch) > 1 else batch[0]))
    if isinstance(data, keras.utils.PyDataset):
        return _Batches(data, each)
    if isinstance(data, Iterator):
        return map(each, data)
    return split.parts(as_arrays(data) if column_names(data) is not None else data)


class _Batches(keras.utils.PyDataset):  # type: ignore[misc]  # keras is untyped
    """The batches of a PyDataset, mapped."""

    def __init__(self, data: Any, each: Callable[[Any], Any]) -> None:
        super().__init__(data.workers, data.use_multiprocessing, data.max_queue_size)
        self._data, self._each = data, each

    @property
    def num_batches(self) -> Any:
        return self._data.num_batches

    def __getitem__(self, index: int) -> Any:
        return self._each(self._data[index])

    def on_epoch_end(self) -> None:
        self._data.on_epoch_end()


def _running(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``fit``, ``evaluate``, ``predict`` and their kin: steps get numbers in place of text."""
    names = list(inspect.signature(original).parameters)[1:]

    @functools.wraps(original)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Named as far as they are known: Keras 2 has others.
        count = len(args) if len(args) <= len(names) else 0
        given = {**kwargs, **dict(zip(names[:count], args, strict=False))}
        if isinstance(given.get("x"), DistributedDataset | DatasetCreator) and runs_on_host(self):
            raise TypeError(
                f"The model {self.name!r} takes text, which is no data of a {type(given['x']).__name__}: "
                "give a Dataset, which fit distributes, or let Dataset.map turn the text into numbers."
            )
        if isinstance(self, keras.Sequential) and "x" in given:
            given["x"] = _build(self, given["x"])
        split = split_of(self) or column_part(self) or ragged_part(self)
        if split is None or given.get("_use_cached_eval_dataset"):  # by fit, whose validation data are mapped
            return original(self, *args[count:], **given)
        if isinstance(split, TextSplit) and original.__name__ in ("fit", "train_on_batch"):
            split.require_no_weights()
        if given.get("x") is not None:
            given["x"] = _mapped(split, given["x"])
        held_out = given.get("validation_data")
        if isinstance(held_out, list | tuple):
            given["validation_data"] = (_mapped(split, held_out[0]), *held_out[1:])
        elif held_out is not None:
            given["validation_data"] = _mapped(split, held_out)
        return original(self, *args[count:], **given)

    return run


def _build(model: Any, data: Any) -> Any:
    """Build a sequential model that begins on the host by the shape of its data, which is returned."""
    if model.built or not runs_on_host(model) or is_parts(data):
        return data
    batch = data
    if isinstance(data, Dataset):
        batch = next(iter(data.take(1)), None)
    elif isinstance(data, keras.utils.PyDataset):
        batch = data[0]
    elif isinstance(data, Iterator):
        batch = next(data, None)
        data = _with_first(batch, data)
    if batch is None:
        return data  # fit says that there is none
    first = batch[0] if isinstance(batch, tuple | list) and batch is not data else batch
    model.build((None, *np.shape(first)[1:]))
    return data


def _with_first(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    if first is not None:
        yield first
    yield from rest


def _building(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Sequential.build``, which takes the first layer's dtype for that of its inputs."""

    @functools.wraps(original)
    def build(self: Any, input_shape: Any = None) -> None:
        layers = self._layers
        if layers and runs_on_host(layers[0]) and isinstance(input_shape, tuple):
            layers.insert(0, keras.layers.InputLayer(batch_shape=input_shape, dtype="string"))
        original(self, input_shape)
        if split_of(self) is not None:
            self._convert_input_args, self._allow_non_tensor_positional_args = False, True

    return build


def _calling(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``__call__`` of functional and sequential models."""

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self, keras.Sequential) and args and not self.built and runs_on_host(self):
            leaves = jax.tree.leaves(args[0], is_leaf=lambda each: isinstance(each, keras.KerasTensor))
            shape = args[0].shape if leaves and leaves[0] is args[0] else np.shape(args[0])
            self.build((None, *shape[1:]))
        if args and self.built and self.trainable_variables and _is_symbolic_text(args[0]):
            # Its layers become the other model's, so that only what takes text runs on the host.
            model = self._functional if isinstance(self, keras.Sequential) else self
            run = functools.partial(keras.src.models.functional.operation_fn, training=kwargs.get("training"))
            return model._run_through_graph(_ordered(args[0], model), operation_fn=run)
        return original(self, *args, **kwargs)

    return call


def _is_symbolic_text(inputs: Any) -> bool:
    return any(
        map(is_text, jax.tree.leaves(inputs, is_leaf=lambda each: isinstance(each, keras.KerasTensor)))
    )


def is_part(key: Any) -> bool:
    """Return whether a key of a dictionary of inputs is of what the host computes of a text."""
    return isinstance(key, str) and key.startswith(_PART)


def _ordered(inputs: Any, model: Any) -> list[Any]:
    if isinstance(inputs, dict) and not isinstance(model._inputs_struct, dict):
        return [inputs[each.name] for each in model.inputs]
    found: list[Any] = keras.tree.flatten(inputs)
    return found


def _computing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Functional.call``."""

    @functools.wraps(original)
    def call(self: Any, inputs: Any, training: Any = None, mask: Any = None, **kwargs: Any) -> Any:
        split = split_of(self)
        if split is None:
            return original(self, inputs, training=training, mask=mask, **kwargs)
        functional = keras.src.models.functional
        in_step = holds_text_of_steps(inputs)
        parts = compute_for_next(_parts_in_step, (split, inputs), {}) if in_step else split.parts(inputs)
        values = [keras.ops.convert_to_tensor(value) for _, value in sorted(parts.items())]
        run = functools.partial(functional.operation_fn, training=training, **kwargs)
        return functional.unpack_singleton(split.rest._run_through_graph(values, operation_fn=run))

    return call


def _specifying(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Functional.compute_output_spec``."""

    @functools.wraps(original)
    def compute_output_spec(self: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        split = split_of(self) if is_parts(inputs) else None
        if split is None:
            return original(self, inputs, *args, **kwargs)
        return split.rest.compute_output_spec([value for _, value in sorted(inputs.items())])

    return compute_output_spec


def _trying(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``compute_output_spec`` of layers and operations: with text they are tried on the host."""

    @functools.wraps(original)
    def compute_output_spec(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _is_symbolic_text((args, kwargs)):
            return spec_by_example(_on_host(self), args, kwargs)
        return original(self, *args, **kwargs)

    return compute_output_spec


def _unchecked(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Functional._assert_input_compatibility``: the parts of a split model are not its inputs."""

    @functools.wraps(original)
    def check(self: Any, *args: Any) -> None:
        if split_of(self) is None:
            original(self, *args)

    return check


def patch() -> None:
    """Let models take text."""
    dtypes = keras.src.backend.common.dtypes
    change_item(dtypes, "PYTHON_DTYPES_MAP", np.dtype(str), "string")  # that of tf.string
    wrap(keras.layers.Layer, "__call__", passing_text)
    wrap(keras.ops, "convert_to_tensor", text_tensors)
    for kind in (_Functional, keras.Sequential):
        wrap(kind, "__call__", _calling)
    wrap(keras.Sequential, "build", _building)
    wrap(_Functional, "call", _computing)
    wrap(_Functional, "compute_output_spec", _specifying)
    wrap(_Functional, "_assert_input_compatibility", _unchecked)
    tried: tuple[Any, ...] = (keras.layers.Layer, keras.layers.Lambda, Operation)
    for kind in tried:
        wrap(kind, "compute_output_spec", _trying)
    for name in ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch"):
        owner = next(each for each in keras.Model.__mro__ if name in vars(each))
        change(owner, name, _running(getattr(keras.Model, name)))
