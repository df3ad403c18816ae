"""Signatures of a loaded model: functions from arrays by name to arrays by name."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from muster._arrays import dtype_named
from muster.data import BytesList, Example, Feature, Features, FloatList, Int64List, TensorSpec
from muster.feature_column import FeatureColumn
from muster.saved_model._arguments import OwnCode, SignatureHostPart
from muster.saved_model._manifest import OutputRecord, ParseRecord, SignatureRecord, TensorRecord

Array = np.ndarray[Any, Any]


def sample_inputs(record: SignatureRecord, rows: int) -> dict[str, Array]:
    """Return inputs by name: zeros and empty text, or Examples and lines with them.

    Args:
        record: The signature.
        rows: The size of the first axis; other free sizes are 1.
    """
    return {name: _sample(name, tensor, record, rows) for name, tensor in record.inputs.items()}


def _sample(name: str, tensor: TensorRecord, record: SignatureRecord, rows: int) -> Array:
    shape = tuple(
        size if size is not None else rows if axis == 0 else 1 for axis, size in enumerate(tensor.shape)
    )
    dtype = dtype_named(tensor.dtype)
    if dtype.kind != "O":
        return np.zeros(shape, dtype)
    parsed = [each.parse for each in record.features.values() if each.input == name and each.parse]
    text: Array = np.empty(shape, object)
    text.fill(_text(parsed))  # np.full drops zeros
    return text


def _text(parsed: list[ParseRecord]) -> bytes:
    """Return text of which features can be read: a line of zeros, or an Example."""
    for parse in parsed:
        if parse.csv is not None:
            fields = parse.csv.fields or 1 + max(int(each.key) for each in parsed)
            return parse.csv.field_delim.join(["0"] * fields).encode()
    features = {parse.key: _feature(parse) for parse in parsed}
    return Example(Features(features)).SerializeToString() if features else b""


def _feature(parse: ParseRecord) -> Feature:
    size = math.prod(parse.shape)
    if dtype_named(parse.dtype).kind in "OSU":
        return Feature(bytes_list=BytesList([b""] * size))
    if dtype_named(parse.dtype).kind == "f":
        return Feature(float_list=FloatList([0.0] * size))
    return Feature(int64_list=Int64List([0] * size))


class Signature:
    """One way to call a saved model.

    Args:
        name: The name.
        record: Its description.
        columns: What the host computes.
        module: The computation: takes a list of weights, and arguments by key.
        weights: The weights, in the order of the module's.
        own_code: What the program's own code computes of features; None for nothing.
        made: Which features it makes of others before that; None for none.
        forget: Called after each call, to give back the memory of what was read of files; None for nothing.
    """

    def __init__(
        self,
        name: str,
        record: SignatureRecord,
        columns: Sequence[FeatureColumn],
        module: Callable[..., Any],
        weights: Sequence[Any],
        own_code: OwnCode | None = None,
        made: OwnCode | None = None,
        forget: Callable[[], None] | None = None,
    ) -> None:
        self._name, self._record = name, record
        self._forget = forget
        self._host = SignatureHostPart(record, columns, own_code, made)
        self._module, self._weights = module, list(weights)
        self._words = {
            key: None if output.words is None else np.array([word.encode() for word in output.words], object)
            for key, output in record.outputs.items()
        }

    @property
    def name(self) -> str:
        """The name of the signature."""
        return self._name

    @property
    def method_name(self) -> str:
        """The method of TensorFlow's servers, such as ``"tensorflow/serving/predict"``."""
        return self._record.method_name

    @property
    def inputs(self) -> dict[str, TensorSpec]:
        """The inputs by name; text has the dtype object, and sizes are None where any will do."""
        return {name: _spec(name, record) for name, record in self._record.inputs.items()}

    @property
    def outputs(self) -> dict[str, TensorSpec]:
        """The outputs by name, as `inputs`."""
        return {name: _spec(name, record) for name, record in self._record.outputs.items()}

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        """Compute the outputs of a batch.

        Args:
            inputs: By name, arrays or nested lists, whose first axis counts examples; text is str or bytes.

        Returns:
            Arrays by name; text is bytes, in arrays of objects.

        Raises:
            ValueError: An input is missing or unknown, or has another shape or dtype; or its values are none
                that the model can take.
        """
        arguments, of_host = self._host.arguments(self._checked(inputs))
        results = iter(self._module(self._weights, arguments))
        outputs = {
            key: _output(next(results), self._words[key])
            if record.host is None
            else _passed(of_host[record.host], record)
            for key, record in self._record.outputs.items()
        }
        if self._forget is not None:
            self._forget()
        return outputs

    def in_step(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs for values of a step, as part of it.

        Args:
            inputs: Arrays by name, of the shapes and dtypes of `inputs`.

        Raises:
            ValueError: An input is missing, or the host computes something of the inputs or makes text.
        """
        record = self._record
        given = {key: feature.input for key, feature in record.features.items()}
        of_host = any(feature.parse or feature.words for feature in record.features.values())
        if (
            of_host
            or record.arguments.keys() - {*given, record.rows}
            or any(each.host or each.words is not None for each in record.outputs.values())
        ):
            raise ValueError(
                f"The signature {self._name!r} reads or returns what only the host has, such as text: call "
                "it outside of the step."
            )
        if missing := self.inputs.keys() - inputs.keys():
            raise ValueError(f"The signature {self._name!r} needs the input {min(missing)!r}.")
        values = {key: inputs[name] for key, name in given.items()}
        if record.rows is not None:
            values[record.rows] = jnp.zeros(len(next(iter(inputs.values()))))
        arguments = {key: jnp.asarray(values[key], dtype) for key, dtype in record.arguments.items()}
        return dict(zip(record.outputs, self._module(self._weights, arguments), strict=True))

    def sample_inputs(self, rows: int) -> dict[str, Array]:
        """Return inputs for a number of rows, zeros and empty text: to compile before the first real call."""
        return sample_inputs(self._record, rows)

    def _checked(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        wanted = self.inputs
        unlike = [f"lacks {name!r}" for name in wanted if name not in inputs]
        unlike += [f"has {name!r}, which is none of them" for name in inputs if name not in wanted]
        if unlike:
            raise ValueError(
                f"The signature {self._name!r} has the inputs {', '.join(map(repr, wanted))}; the call "
                f"{' and '.join(unlike)}."
            )
        arrays = {name: _as_input(inputs[name], spec) for name, spec in wanted.items()}
        lengths = {name: len(array) for name, array in arrays.items() if array.ndim}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"The inputs differ in their number of examples: {lengths}.")
        if 0 in lengths.values():
            raise ValueError("The inputs have no examples: give one or more.")
        return arrays


def _spec(name: str, record: TensorRecord | OutputRecord) -> TensorSpec:
    return TensorSpec(record.shape, dtype_named(record.dtype), name)


def _as_input(value: Any, spec: TensorSpec) -> Array:
    """Return an input in the shape and dtype that the signature wants."""
    array = _as_text(value, spec) if spec.dtype.kind == "O" else _as_numbers(value, spec)
    shape = spec.shape or ()
    fits = array.ndim == len(shape) and all(
        size in (None, here) for size, here in zip(shape, array.shape, strict=True)
    )
    if not fits or not math.prod(array.shape[1:]):
        raise ValueError(
            f"The input {spec.name!r} has the shape {list(array.shape)}, and the signature wants "
            f"[{', '.join('any' if size is None else str(size) for size in shape)}]."
        )
    return array


def _as_text(value: Any, spec: TensorSpec) -> Array:
    # NumPy's bytes would lose zeros at their ends.
    array = value if isinstance(value, np.ndarray) else np.array(value, object)
    text: Array = np.empty(array.shape, object)
    for place, each in enumerate(array.reshape(-1).tolist()):
        if not isinstance(each, str | bytes):
            raise ValueError(
                f"The input {spec.name!r} is text, and has {each!r} of type {type(each).__name__}."
            )
        text.reshape(-1)[place] = each.encode() if isinstance(each, str) else each
    return text


def _as_numbers(value: Any, spec: TensorSpec) -> Array:
    try:
        array = np.asarray(value)
    except ValueError as exc:
        raise ValueError(f"The input {spec.name!r} is no array: its lists differ in length. {exc}") from exc
    if array.dtype == spec.dtype:
        return array
    whole = array.dtype.kind in "iu" and spec.dtype.kind in "iu"
    if not (whole or np.can_cast(array.dtype, spec.dtype, "same_kind")) or array.dtype.kind in "USO":
        raise ValueError(
            f"The input {spec.name!r} has the dtype {array.dtype}, and the signature wants {spec.dtype}."
        )
    cast = array.astype(spec.dtype)
    if whole and (cast != array).any():
        raise ValueError(f"The input {spec.name!r} has numbers that {spec.dtype} does not hold.")
    return cast


def _passed(value: Any, record: OutputRecord) -> Array:
    """Return what the host has, text as bytes."""
    array = np.asarray(value)
    if array.dtype.kind in "US" and record.dtype == "object":
        text: Array = np.empty(array.shape, object)
        text.reshape(-1)[:] = [
            each if isinstance(each, bytes) else each.encode("utf-8", "surrogateescape")
            for each in array.ravel().tolist()
        ]
        return text
    return array if record.dtype == "object" else array.astype(record.dtype)


def _output(result: Any, words: Array | None) -> Array:
    array = np.asarray(result)
    if words is None:
        return array
    text: Array = words[array]
    return text
