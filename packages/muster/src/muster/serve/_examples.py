"""Bodies of ``:classify`` and ``:regress`` requests, and their answers.

Source: tensorflow_serving/util/json_tensor.cc; servables/tensorflow/classifier.cc and regressor.cc.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from muster._errors import RequestError
from muster.data import BytesList, Example, Feature, Features, FloatList, Int64List, TensorSpec
from muster.serve._tensors import Array, decimal, shown, to_bytes

# The only input of a signature that takes serialized Examples.
INPUT = "inputs"
_LARGEST = float(np.finfo(np.float32).max)
_INT64 = np.iinfo(np.int64)


class _Signature(Protocol):
    """The parts of a signature that requests are checked against."""

    @property
    def name(self) -> str: ...
    @property
    def method_name(self) -> str: ...
    @property
    def inputs(self) -> Mapping[str, TensorSpec]: ...


def check_signature(signature: _Signature, verb: str) -> None:
    """Check that a signature can be asked to ``classify`` or to ``regress``.

    Raises:
        RequestError: It is for something else.
    """
    method, inputs = signature.method_name, signature.inputs
    if method != f"tensorflow/serving/{verb}":
        raise RequestError(
            f"The signature {signature.name!r} is for {method}, not for tensorflow/serving/{verb}. Ask "
            f':{method.rpartition("/")[2]}, or for another signature by "signature_name".'
        )
    if list(inputs) != [INPUT] or inputs[INPUT].dtype.kind != "O":
        raise RequestError(
            f"The signature {signature.name!r} does not take serialized Examples in one input {INPUT!r}. "
            "Ask :predict."
        )


def example_inputs(request: Mapping[str, Any]) -> dict[str, Array]:
    """Return the serialized Examples of a request, as the input of a signature.

    Args:
        request: Its JSON: ``"examples"``, a list of objects, and perhaps ``"context"``, an object with what
            all of them have.

    Raises:
        RequestError: An example is none, or there are none.
    """
    context = _features(request.get("context", {}), '"context"')
    examples = request.get("examples")
    if not isinstance(examples, list) or not examples:
        raise RequestError(f'"examples" must be a list of one or more objects, got {shown(examples)}.')
    serialized = np.empty(len(examples), object)
    serialized[:] = [
        Example(Features({**context, **_features(example, f'Number {i} of "examples"')})).SerializeToString()
        for i, example in enumerate(examples)
    ]
    return {INPUT: serialized}


def _features(example: Any, where: str) -> dict[str, Feature]:
    if not isinstance(example, dict):
        raise RequestError(f"{where} must be an object, got {shown(example)}.")
    return {name: _feature(value, f"Feature {name!r} of {where}") for name, value in example.items()}


def _feature(value: Any, where: str) -> Feature:
    values = value if isinstance(value, list) else [value]
    kinds = {type(each) for each in values}
    if not kinds:
        return Feature()
    if kinds <= {str, dict}:
        return Feature(bytes_list=BytesList([to_bytes(each, where) for each in values]))
    if kinds <= {int, bool}:
        if not all(_INT64.min <= each <= _INT64.max for each in values):
            raise RequestError(f"{where} has a number that int64 does not hold: {shown(value)}.")
        return Feature(int64_list=Int64List(list(map(int, values))))
    if kinds == {float}:
        if any(_LARGEST < abs(each) < np.inf for each in values):
            raise RequestError(f"{where} has a number that float32 does not hold: {shown(value)}.")
        return Feature(float_list=FloatList(values))
    raise RequestError(
        f"{where} takes strings and bytes, or integers, or numbers that all have a decimal point, got "
        f"{shown(value)}."
    )


def classify_answer(outputs: Mapping[str, Array]) -> dict[str, Any]:
    """Return the answer to ``:classify``: for each example pairs of a class and its score.

    Args:
        outputs: ``"classes"``, bytes, and ``"scores"``, float32, of shape (examples, classes), or one of
            them.

    Raises:
        RequestError: They have other shapes, or neither is there.
    """
    classes, scores = outputs.get("classes"), outputs.get("scores")
    shapes = {array.shape for array in (classes, scores) if array is not None}
    if len(shapes) != 1 or len(shape := shapes.pop()) != 2:
        raise RequestError(
            "To classify, a signature has the outputs 'classes' and 'scores' of shape [examples, classes], "
            f"or one of them; this one has {_shapes(outputs)}. Ask :predict."
        )
    rows, columns = shape
    labels = [[""] * columns] * rows
    if classes is not None:
        labels = [[label.decode(errors="replace") for label in row] for row in classes.tolist()]
    values = [[0.0] * columns] * rows
    if scores is not None:
        values = [[decimal(score) for score in row] for row in scores.astype(np.float32).tolist()]
    return {
        "results": [
            [[label, value] for label, value in zip(*row, strict=True)]
            for row in zip(labels, values, strict=True)
        ]
    }


def regress_answer(outputs: Mapping[str, Array]) -> dict[str, Any]:
    """Return the answer to ``:regress``: a number for each example.

    Args:
        outputs: ``"outputs"``, of shape (examples,) or (examples, 1).

    Raises:
        RequestError: It has another shape, or is not there.
    """
    array = outputs.get("outputs")
    if array is None or array.ndim not in (1, 2) or array.size != len(array):
        raise RequestError(
            "To regress, a signature has one output 'outputs' of shape [examples] or [examples, 1]; this one "
            f"has {_shapes(outputs)}. Ask :predict."
        )
    return {"results": [decimal(value) for value in array.astype(np.float32).reshape(-1).tolist()]}


def _shapes(outputs: Mapping[str, Array]) -> str:
    return ", ".join(f"{name!r} of shape {list(array.shape)}" for name, array in outputs.items())
