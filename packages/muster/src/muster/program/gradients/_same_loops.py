"""Recognize loops and branches that are made anew at every call, so that JAX compiles them once.

A layer such as ``GRU`` traces the body of its loop in each eager call. JAX keeps what it has compiled, and
what it knows of derivatives, by the object that describes the body, and would begin again at each step.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core as jex

_MOST = 256
_known: OrderedDict[Any, Callable[..., Sequence[Any]]] = OrderedDict()
_lock = threading.Lock()


def compiled_loop(primitive: Any, params: Mapping[str, Any]) -> Callable[..., Sequence[Any]] | None:
    """Return a compiled function that does an operation with bodies, the same for equal bodies.

    Args:
        primitive: The operation.
        params: Its parameters.

    Returns:
        A function of the operands; None if the operation has no bodies, or they cannot be compared.
    """
    if not primitive.multiple_results or not any(map(_has_body, params.values())):
        return None
    try:
        key = primitive, tuple((name, _frozen(params[name])) for name in sorted(params))
        hash(key)
    except TypeError:
        return None
    with _lock:
        found = _known.get(key)
        if found is None:
            found = _known[key] = jax.jit(lambda *operands: primitive.bind(*operands, **params))
        _known.move_to_end(key)
        if len(_known) > _MOST:
            _known.popitem(last=False)
    return found


def _has_body(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_has_body, value))
    return isinstance(value, jex.ClosedJaxpr)


def _frozen(value: Any) -> Any:
    """Return a hashable value that is equal for equal bodies alone.

    Raises:
        TypeError: There is none.
    """
    if isinstance(value, jex.ClosedJaxpr):
        if value.consts:
            raise TypeError("arrays are not compared")
        return _frozen(value.jaxpr)
    if isinstance(value, jex.Jaxpr):
        return _frozen_body(value)
    if isinstance(value, tuple | list):
        return type(value), tuple(map(_frozen, value))
    return type(value), value


def _frozen_body(body: Any) -> Any:
    places: dict[Any, int] = {}

    def place(atom: Any) -> Any:
        if isinstance(atom, jex.Literal):
            array = np.asarray(atom.val)
            return array.dtype.str, array.shape, array.tobytes(), atom.aval
        return places.setdefault(atom, len(places)), atom.aval

    begin = [place(variable) for variable in (*body.constvars, *body.invars)]
    equations = [
        (
            eqn.primitive,
            tuple(map(place, eqn.invars)),
            tuple((name, _frozen(eqn.params[name])) for name in sorted(eqn.params)),
            tuple(map(place, eqn.outvars)),
        )
        for eqn in body.eqns
    ]
    return tuple(begin), tuple(equations), tuple(map(place, body.outvars))
