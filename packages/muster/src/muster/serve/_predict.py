"""Bodies of ``:predict`` requests, and their answers.

Source: tensorflow_serving/util/json_tensor.cc.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from muster._errors import RequestError
from muster.data import TensorSpec
from muster.serve._tensors import Array, check_names, check_shape, from_array, is_base64, shown, to_array

DEFAULT_SIGNATURE = "serving_default"


class Format(Enum):
    """The formats of a request's inputs and its answer's outputs."""

    ROWS = "instances"
    COLUMNS = "inputs"


def signature_name(request: Mapping[str, Any]) -> str:
    """Return which signature a request asks for; empty for none by name.

    Raises:
        RequestError: It is no string.
    """
    name = request.get("signature_name", "")
    if not isinstance(name, str):
        raise RequestError(f'"signature_name" must be a string, got {shown(name)}.')
    return name


def predict_inputs(
    request: Mapping[str, Any], specs: Mapping[str, TensorSpec]
) -> tuple[dict[str, Array], Format]:
    """Return the inputs of a request.

    Args:
        request: Its JSON.
        specs: The inputs of the signature.

    Returns:
        The inputs by name, of the signature's dtypes and shapes, and the format that the answer has.

    Raises:
        RequestError: It lacks an input, or has another one, or one of another shape or dtype.
    """
    given = [each for each in Format if each.value in request]
    if len(given) != 1:
        raise RequestError(
            'A request has either "instances" or "inputs"; this one has '
            + ("both." if given else f"neither: {', '.join(map(shown, request)) or 'nothing'}.")
        )
    value = request[given[0].value]
    columns = _columns_of_rows(value, specs) if given[0] is Format.ROWS else _columns(value, specs)
    arrays = {name: to_array(columns[name], name, spec.dtype) for name, spec in specs.items()}
    for name, spec in specs.items():
        check_shape(name, arrays[name], spec.shape)
    return arrays, given[0]


def _columns_of_rows(rows: Any, specs: Mapping[str, TensorSpec]) -> Mapping[str, Any]:
    if not isinstance(rows, list) or not rows:
        raise RequestError(f'"instances" must be a list of one or more, got {shown(rows)}.')
    named = [isinstance(row, dict) and not is_base64(row) for row in rows]
    if any(named) != all(named):
        raise RequestError(
            f'"instances" must be all objects or none; number {named.index(not named[0])} is not as the '
            "one before."
        )
    if all(named):
        for i, row in enumerate(rows):
            if row.keys() != specs.keys():
                check_names(row, specs, f'Number {i} of "instances"')
        return {name: [row[name] for row in rows] for name in specs}
    return {_only_name(specs, "instances"): rows}


def _columns(value: Any, specs: Mapping[str, TensorSpec]) -> Mapping[str, Any]:
    if isinstance(value, dict) and not is_base64(value):
        check_names(value, specs, '"inputs"')
        return value
    return {_only_name(specs, "inputs"): value}


def _only_name(specs: Mapping[str, TensorSpec], key: str) -> str:
    if len(specs) != 1:
        raise RequestError(
            f'"{key}" must have objects with {", ".join(map(repr, specs))}: the signature has several inputs.'
        )
    return next(iter(specs))


def predict_answer(outputs: Mapping[str, Array], form: Format) -> dict[str, Any]:
    """Return the answer to a request.

    Args:
        outputs: The outputs by name.
        form: The format of the request.

    Raises:
        RequestError: The answer has rows, and the outputs have none, or differ in their number.
    """
    values = {name: from_array(array, name) for name, array in outputs.items()}
    if form is Format.COLUMNS:
        return {"outputs": values if len(values) != 1 else next(iter(values.values()))}
    rows = {name: len(array) if array.ndim else None for name, array in outputs.items()}
    if None in rows.values() or len(set(rows.values())) > 1:
        raise RequestError(
            f'The outputs have no common number of rows: {rows}. Send "inputs" instead of "instances".'
        )
    if len(values) == 1:
        return {"predictions": next(iter(values.values()))}
    names = list(values)
    return {"predictions": [dict(zip(names, row, strict=True)) for row in zip(*values.values(), strict=True)]}
