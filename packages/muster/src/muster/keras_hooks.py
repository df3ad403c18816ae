"""Set muster's hooks in Keras and JAX; ``keras_hooks.toml`` lists them all, each with its reason.

Keras has no hooks for what a step of several replicas needs, such as who may create variables, or which data
``fit`` takes. So some methods of Keras' classes are wrapped: a few for good, most of them only while a
strategy's scope is active in any thread. In threads that trace nothing, what is wrapped behaves as Keras'
own, and so does what is wrapped for good, wherever Keras' own works.

What is wrapped for good is set when the module that needs it is imported. `uninstall` takes all of it away
again, and `install` sets it anew: a test finds Keras' classes as they were, and what this list does not have.
"""

import contextlib
import threading
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

When = Literal["always", "in scopes", "under tapes", "in use"]
Owner = type | ModuleType | Any
Wrapper = Callable[[Any], Any]


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
        test: The test that fails without it, in the folder of the core's tests.
    """

    owner: str
    names: tuple[str, ...]
    why: str
    when: When
    by: str
    test: str


_LIST = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

TRIED: dict[str, str] = _LIST["tried"]
"""The versions of Keras and JAX that `HOOKS` was tried on."""

HOOKS = tuple(Hook(**{**hook, "names": tuple(hook["names"])}) for hook in _LIST["hook"])
"""All that muster sets in Keras and JAX.

It registers classes and primitives of its own with both, by what they offer for it. And where `muster.keras`
is what imports Keras, ``keras.wrappers`` is a stand-in that is loaded when it is first used, and Keras has
others for pandas, requests, ``jax.experimental.sparse.linalg`` and attention on TPUs.
"""

_NAMED = {(hook.owner, name) for hook in HOOKS for name in hook.names}
_INHERITED = object()


class Patches:
    """Wrappers of attributes that are there as long as anybody uses them."""

    def __init__(self) -> None:
        self._wrappers: list[tuple[Owner, str, Wrapper]] = []
        self._owned: list[tuple[Owner, str, Any]] = []
        self._users = 0
        self._lock = threading.RLock()

    @property
    def are_in_use(self) -> bool:
        """True while the registered wrappers are in place."""
        return self._users > 0

    def add(self, owner: Owner, name: str, wrapper: Wrapper) -> None:
        """Register a wrapper of an attribute of a class or module that `HOOKS` names; wrap it if in use.

        Raises:
            RuntimeError: `HOOKS` does not name it.
        """
        path = owner.__name__ if isinstance(owner, ModuleType) else f"{owner.__module__}.{owner.__qualname__}"
        if (path, name) not in _NAMED:
            raise RuntimeError(
                f"muster.keras_hooks does not name {path}.{name}: say there why muster sets it."
            )
        with self._lock:
            self._wrappers.append((owner, name, wrapper))
            if self._users:
                self._wrap(owner, name, wrapper)

    def begin(self) -> None:
        """Wrap all that is registered, until as many calls of `end`."""
        with self._lock:
            if self._users == 0:
                for each in self._wrappers:
                    self._wrap(*each)
            self._users += 1

    def end(self) -> None:
        """Restore the originals, if this was the last user."""
        with self._lock:
            self._users -= 1
            while self._owned and self._users == 0:
                owner, name, owned = self._owned.pop()
                if owned is _INHERITED:
                    delattr(owner, name)
                else:
                    setattr(owner, name, owned)

    def _wrap(self, owner: Owner, name: str, wrapper: Wrapper) -> None:
        self._owned.append((owner, name, vars(owner).get(name, _INHERITED)))
        setattr(owner, name, wrapper(getattr(owner, name, None)))


_ALWAYS = Patches()
_WHILE_SCOPES_ARE_ACTIVE = Patches()
WHILE_TAPES_ARE_OPEN = Patches()


def wrap(owner: Owner, name: str, wrapper: Wrapper) -> None:
    """Set an attribute of a class or module that `HOOKS` names to what a function makes of it, for good."""
    _ALWAYS.add(owner, name, wrapper)


def replace(owner: Owner, name: str, value: Any) -> None:
    """Set an attribute of a class or module that `HOOKS` names, for good."""
    _ALWAYS.add(owner, name, lambda original: value)


def wrap_in_scopes(owner: Owner, name: str, wrapper: Wrapper) -> None:
    """Register a wrapper for a method of a class or a function of a module, while any scope is active."""
    _WHILE_SCOPES_ARE_ACTIVE.add(owner, name, wrapper)


@contextlib.contextmanager
def patched_keras() -> Iterator[None]:
    """Wrap all that is wrapped in scopes; the last thread to leave restores the originals."""
    _WHILE_SCOPES_ARE_ACTIVE.begin()
    try:
        yield
    finally:
        _WHILE_SCOPES_ARE_ACTIVE.end()


def install() -> None:
    """Set what is set for good: what is registered now, and what is registered later, at once."""
    if not _ALWAYS.are_in_use:
        _ALWAYS.begin()


def uninstall() -> None:
    """Restore what is set for good, until `install`. What a front end has set on top is undone before.

    Raises:
        RuntimeError: A scope of a strategy is active, or a tape open.
    """
    if _WHILE_SCOPES_ARE_ACTIVE.are_in_use or WHILE_TAPES_ARE_OPEN.are_in_use:
        raise RuntimeError("muster's hooks in Keras stay while a strategy's scope is active or a tape open.")
    if _ALWAYS.are_in_use:
        _ALWAYS.end()


install()
