"""JAX's own lowerings for CPU: the one place here that reaches into JAX's internals.

``jax.interpreters.mlir.register_lowering`` is public, but it replaces what was registered before and has
no way to ask for it. A lowering that applies to some shapes only must be able to hand over the others,
and switching off must be able to put back what was there. Tried with jax 0.10.2.
"""

from collections.abc import Callable
from typing import Any

from jax._src.interpreters import mlir
from jax.extend.core import Primitive

Rule = Callable[..., Any]


def jax_rule(primitive: Primitive) -> Rule:
    """What lowers a primitive on CPU as things stand: a rule for that platform, or else the general one.

    Raises:
        KeyError: if the primitive has neither.
    """
    entry = mlir._platform_specific_lowerings["cpu"].get(primitive) or mlir._lowerings[primitive]
    rule: Rule = entry.rule
    return rule
