"""Set muster's hooks in Keras and JAX; ``keras_hooks.toml`` lists them all, each with its reason.

Keras has no hooks for what a step of several replicas needs, such as who may create variables, or which data
``fit`` takes. So some methods of Keras' classes are wrapped: a few for good, most of them only while a
strategy's scope is active in any thread. In threads that trace nothing, what is wrapped behaves as Keras'
own, and so does what is wrapped for good, wherever Keras' own works.

A test compares this with Keras and JAX as they are without muster.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

When = Literal["always", "in scopes", "under tapes", "in use"]


@dataclass(frozen=True, kw_only=True)
class Hook:
    """Attributes of a class or module of Keras or JAX that muster sets.

    Attributes:
        owner: The class or module.
        names: The attributes.
        why: The reason.
        when: How long they are set: "always", from when ``by`` is imported; "in scopes", while any thread
            traces a step or is in the scope of a strategy; "under tapes", while a ``GradientTape`` is open;
            "in use", once it is first needed, for good.
        by: The module of muster that sets them.
    """

    owner: str
    names: tuple[str, ...]
    why: str
    when: When
    by: str


HOOKS = tuple(
    Hook(**{**hook, "names": tuple(hook["names"])})
    for hook in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["hook"]
)
"""All that muster sets in Keras and JAX.

It registers classes and primitives of its own with both, by what they offer for it. And where `muster.keras`
is what imports Keras, ``keras.wrappers`` is a stand-in that is loaded when it is first used.
"""

_NAMED = {(hook.owner, name) for hook in HOOKS for name in hook.names}


def install(owner: type | ModuleType | Any, name: str, value: Any) -> None:
    """Set an attribute of a class or module of Keras or JAX that `HOOKS` names.

    Raises:
        RuntimeError: It does not name it.
    """
    require_named(owner, name)
    setattr(owner, name, value)


def wrap(owner: type | ModuleType | Any, name: str, wrapper: Callable[[Any], Any]) -> None:
    """Set an attribute that `HOOKS` names to what a function makes of it."""
    install(owner, name, wrapper(getattr(owner, name)))


def require_named(owner: type | ModuleType | Any, name: str) -> None:
    """Check that `HOOKS` names an attribute of a class or module.

    Raises:
        RuntimeError: It does not.
    """
    path = owner.__name__ if isinstance(owner, ModuleType) else f"{owner.__module__}.{owner.__qualname__}"
    if (path, name) not in _NAMED:
        raise RuntimeError(f"muster.keras_hooks does not name {path}.{name}: say there why muster sets it.")
