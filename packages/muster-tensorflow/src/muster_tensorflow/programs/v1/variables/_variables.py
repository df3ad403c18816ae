"""``tf.compat.v1.get_variable`` and ``variable_scope``: variables that code finds by name."""

import contextlib
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from muster import keras
from muster.extend import current_scope, own_name, rename
from muster_tensorflow.library.ops._arrays import DTypeLike, as_array
from muster_tensorflow.library.ops._value_names import entered
from muster_tensorflow.programs.v1._collections import add_variable
from muster_tensorflow.programs.v2._variable import created_in, scopes_of

Getter = Callable[..., Any]
"""Returns what code gets as a variable: ``(getter, name, shape=…, dtype=…, …)``, where getter makes it."""

AUTO_REUSE = "auto_reuse"
Made = TypeVar("Made")
_UNUSED = ("caching_device", "partitioner", "validate_shape", "use_resource")


@dataclass(frozen=True, kw_only=True)
class _Settings:
    """The options that the scopes around a call set."""

    name: str = ""
    initializer: Any = None
    regularizer: Any = None
    constraint: Any = None
    dtype: DTypeLike = np.float32
    reuse: bool | str | None = None
    getters: tuple[Getter, ...] = ()  # of the scopes, the innermost one first
    prefix: str = ""  # of the names of values
    opened: set[str] = field(default_factory=set, compare=False)  # the scopes in it, since it was entered


Kept = dict[str, dict[str, Any]]  # kind -> name -> what was made

_CURRENT: ContextVar[_Settings | None] = ContextVar("muster_tensorflow_1_scope", default=None)
_KEPT: ContextVar[Kept | None] = ContextVar("muster_tensorflow_1_kept", default=None)


def _settings() -> _Settings:
    """Return the options of the scope around the call; outside of scopes, those of the whole program."""
    if (current := _CURRENT.get()) is not None:
        return current
    scope = current_scope()
    opened = set() if scope is None else scope.shared.setdefault(("tensorflow 1", "opened"), set())
    return _Settings(opened=opened)


class VariableScope:
    """A scope, as ``with tf.variable_scope(…) as scope`` gives it.

    Source: tensorflow/python/ops/variable_scope.py, ``VariableScope``.
    """

    def __init__(self, settings: _Settings) -> None:
        """Describe a scope. Programs call `variable_scope` instead."""
        self._settings = settings

    @property
    def name(self) -> str:
        """The names of the scopes, with slashes between them."""
        return self._settings.name

    @property
    def original_name_scope(self) -> str:
        """The prefix of the names of values when the scope was opened, for ``tf.name_scope``."""
        return self._settings.prefix

    @property
    def initializer(self) -> Any:
        """The initializer of variables that have none of their own."""
        return self._settings.initializer

    @property
    def regularizer(self) -> Any:
        """The regularizer of variables that have none of their own."""
        return self._settings.regularizer

    @property
    def constraint(self) -> Any:
        """The constraint of variables that have none of their own."""
        return self._settings.constraint

    @property
    def reuse(self) -> bool | str | None:
        """True if variables must exist already, `AUTO_REUSE` if they may; else they must be new."""
        return self._settings.reuse

    def reuse_variables(self) -> None:
        """Take the variables that exist from here on, to the end of the scope."""
        self._settings = replace(self._settings, reuse=True)
        if _settings().name == self.name:
            _CURRENT.set(self._settings)


def get_variable_scope() -> VariableScope:
    """Return the scope around the call."""
    return VariableScope(_settings())


@contextlib.contextmanager
def variable_scope(
    name_or_scope: str | VariableScope | None,
    default_name: str | None = None,
    values: object = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: object = None,
    partitioner: object = None,
    custom_getter: Getter | None = None,
    reuse: bool | str | None = None,
    dtype: DTypeLike = None,
    use_resource: bool | None = None,
    constraint: Callable[[Any], Any] | None = None,
    auxiliary_name_scope: bool = True,
) -> Iterator[VariableScope]:
    """Prefix the names of variables and layers, and set what `get_variable` does by default.

    Args:
        name_or_scope: The prefix, or a scope to enter again, which must lie in the scope around the call.
        default_name: The prefix if that is None; a number is appended if the prefix is taken.
        values: Unused.
        initializer: For variables without one of their own.
        regularizer: Likewise.
        caching_device: Unused.
        partitioner: Unused: strategies divide variables.
        custom_getter: What `get_variable` calls instead, as ``custom_getter(getter, name, …)``; it may return
            what it computes of ``getter(name, …)``. It is asked about variables of layers, too, and must
            return these as they are.
        reuse: Whether variables must exist already (True) or may (`AUTO_REUSE`); None is what the scope
            around the call says.
        dtype: Of variables without one of their own.
        use_resource: Unused.
        constraint: For variables without one of their own.
        auxiliary_name_scope: Whether to prefix the names of values, too, with a number if there was a scope
            of this name before.

    Raises:
        ValueError: A scope lies elsewhere.

    Source: tensorflow/python/ops/variable_scope.py, ``variable_scope``.
    """
    outer = _settings()
    base = outer
    if isinstance(name_or_scope, VariableScope):
        base, whole = name_or_scope._settings, name_or_scope.name
        if outer.name and not f"{whole}/".startswith(f"{outer.name}/"):
            raise ValueError(
                f"The scope {whole!r} cannot be entered inside of {outer.name!r}: leave that one before."
            )
        inner, of_values = whole.removeprefix(outer.name).strip("/"), whole.rpartition("/")[2]
    elif name_or_scope is not None:
        inner = of_values = name_or_scope
    elif default_name is not None:
        inner, of_values = next_name(default_name), default_name
    else:
        raise ValueError("If default_name is None then name_or_scope is required.")
    settings = replace(
        base,
        name=f"{outer.name}/{inner}".strip("/"),
        reuse=reuse or base.reuse or outer.reuse,
        initializer=base.initializer if initializer is None else initializer,
        regularizer=base.regularizer if regularizer is None else regularizer,
        constraint=base.constraint if constraint is None else constraint,
        getters=base.getters if custom_getter is None else (custom_getter, *base.getters),
        dtype=base.dtype if dtype is None else dtype,
        opened=set() if inner else set(outer.opened),
    )
    outer.opened.add(inner)
    with contextlib.ExitStack() as left:
        for part in filter(None, inner.split("/")):
            left.enter_context(keras.name_scope(part))
        if auxiliary_name_scope and of_values:
            prefix = left.enter_context(entered(of_values))
            if not isinstance(name_or_scope, VariableScope):
                settings = replace(settings, prefix=prefix)
        token = _CURRENT.set(settings)
        left.callback(_CURRENT.reset, token)
        yield VariableScope(settings)


def get_variable(
    name: str,
    shape: int | Sequence[int] | None = None,
    dtype: DTypeLike = None,
    initializer: Any = None,
    regularizer: Callable[[Any], Any] | None = None,
    trainable: bool | None = None,
    collections: object = None,
    caching_device: object = None,
    partitioner: object = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Getter | None = None,
    constraint: Callable[[Any], Any] | None = None,
    synchronization: Any = None,
    aggregation: Any = None,
) -> Any:
    """Return a new variable of the model_fn, or with ``reuse`` the one of this name.

    In eager code it is a new one at each call, but for methods that ``track_tf1_style_variables`` decorates.

    Args:
        name: Its name, after those of the scopes; it may have scopes of its own, as in ``"kernel/adam_m"``.
        shape: Its shape; None takes that of an initializer that is an array.
        dtype: Its dtype; None is the scope's, which is float32 by default.
        initializer: One of Keras or of ``tf.compat.v1``, a function of a shape and a dtype, or an array; None
            is the scope's, by default Glorot's uniform one, and zeros for integers.
        regularizer: Gives the penalty that ``get_regularization_losses`` returns; None is the scope's.
        trainable: Whether ``minimize`` trains it; None is True.
        collections: Those that it is added to. In ``LOCAL_VARIABLES`` or ``METRIC_VARIABLES``, and not in
            ``GLOBAL_VARIABLES``, it begins anew in each session and is in no checkpoint.
        caching_device: Unused.
        partitioner: Unused: strategies divide variables.
        validate_shape: Unused.
        use_resource: Unused.
        custom_getter: As of `variable_scope`, for this variable alone.
        constraint: Projects the value after each update, as optimizers of Keras do it; None is the scope's.
        synchronization: As of ``tf.Variable``.
        aggregation: As of ``tf.Variable``.

    Raises:
        ValueError: The variable exists and may not, or must and does not; it has no shape, or another.

    Source: tensorflow/python/ops/variable_scope.py, ``get_variable``.
    """
    settings = _settings()
    getters = settings.getters if custom_getter is None else (custom_getter, *settings.getters)
    options = {
        "shape": shape,
        "dtype": np.dtype(settings.dtype if dtype is None else dtype),
        "initializer": settings.initializer if initializer is None else initializer,
        "regularizer": settings.regularizer if regularizer is None else regularizer,
        "trainable": trainable,
        "constraint": settings.constraint if constraint is None else constraint,
        "synchronization": synchronization,
        "aggregation": aggregation,
    }
    with created_in(collections):
        if getters:
            known = {"collections": collections, "reuse": settings.reuse, **dict.fromkeys(_UNUSED)}
            made = _asked(getters, _variable_of_path)(_path(name), **options, **known)
        else:
            made = _variable(name, **options)
    return add_variable(collections, made)


def _asked(getters: tuple[Getter, ...], getter: Getter) -> Getter:
    """Return a getter that asks others about what it returns, the first one last."""
    for each in reversed(getters):
        getter = partial(each, getter)
    return getter


def has_getters() -> bool:
    """Return whether the scopes around the call have a ``custom_getter``."""
    return bool(_settings().getters)


def ask_getters(variables: Iterable[keras.Variable]) -> list[tuple[keras.Variable, jax.Array]]:
    """Ask the getters of the scope about the variables of a layer, and return the values in place of some.

    Raises:
        ValueError: A value has another shape than the variable.
    """
    others = []
    for variable in variables:

        def same(name: str, *args: Any, _variable: keras.Variable = variable, **kwargs: Any) -> Any:
            return _variable

        asked = _asked(_settings().getters, same)
        path, shape = variable.path.removesuffix(":0"), tuple(variable.shape)
        found = asked(path, shape=shape, dtype=np.dtype(variable.dtype))
        if found is not variable:
            value = jnp.asarray(as_array(found), variable.dtype)
            if value.shape != shape:
                raise ValueError(
                    f"The custom_getter around the layer of {variable.path} returns a value of shape "
                    f"{value.shape}, and the variable has {shape}."
                )
            others.append((variable, value))
    return others


def _variable_of_path(name: str, *args: Any, **options: Any) -> keras.Variable:
    """Return the variable whose name has those of the scopes, as getters ask for it."""
    prefix = f"{_settings().name}/" if _settings().name else ""
    if not name.startswith(prefix):
        raise ValueError(
            f"A custom_getter asks for the variable {name!r}, outside of the scope {prefix!r}: enter that "
            "variable's scope."
        )
    given = {**dict(zip(("shape", "dtype", "initializer", "regularizer"), args, strict=False)), **options}
    return _variable(name.removeprefix(prefix), **{key: given.get(key) for key in _OPTIONS})


_OPTIONS = (
    *("shape", "dtype", "initializer", "regularizer", "trainable"),
    *("constraint", "synchronization", "aggregation"),
)


def _variable(
    name: str,
    *,
    shape: Any,
    dtype: DTypeLike,
    initializer: Any,
    regularizer: Any,
    trainable: bool | None,
    constraint: Any,
    synchronization: Any,
    aggregation: Any,
) -> keras.Variable:
    """Return a new variable, or the one of this name, as `get_variable` says."""

    def make() -> keras.Variable:
        kind = str(np.dtype(_settings().dtype if dtype is None else dtype))
        initial, sizes = _initializer(name, initializer, shape, kind)
        options = {
            key: value.name.lower()
            for key, value in (("synchronization", synchronization), ("aggregation", aggregation))
            if value is not None
        }
        with scopes_of(name) as own:
            variable = keras.Variable(
                initial, sizes, kind, trainable=trainable is not False, name=own, **options
            )
        variable.regularizer = regularizer
        variable.constraint = constraint
        return variable

    found = shared("variables", name, make)
    sizes = None if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    if sizes is not None and tuple(found.shape) != sizes:
        raise ValueError(
            f"Trying to share variable {found.path}, but specified shape {sizes} and found shape "
            f"{tuple(found.shape)}."
        )
    if current_scope() is None or _KEPT.get() is not None:
        rename(found, f"{_path(name)}:0")
        return found
    return with_names([found])[0]


def _initializer(name: str, given: Any, shape: Any, dtype: str) -> tuple[Any, tuple[int, ...] | None]:
    """Return an initializer for ``keras.Variable``, and the shape; None if it is a value."""
    if given is None:
        given = "glorot_uniform" if np.dtype(dtype).kind not in "iub" else "zeros"
    if inspect.isclass(given):
        given = given()
    if not callable(given) and not isinstance(given, str):
        return as_array(given, dtype), None
    if shape is None:
        raise ValueError(f"Shape of a new variable ({name}) must be fully defined, but instead was None.")
    found = keras.initializers.get(given)
    if not isinstance(found, keras.initializers.Initializer):
        found = _with_dtype(found)
    return found, (shape,) if isinstance(shape, int) else tuple(shape)


def _with_dtype(initializer: Callable[..., Any]) -> Callable[..., Any]:
    """Let a program's own initializer get its dtype as TensorFlow's are, and not as a name."""

    def initial(shape: Any, dtype: Any = None) -> Any:
        return initializer(shape, dtype=None if dtype is None else np.dtype(dtype))

    return initial


def with_names(variables: list[keras.Variable]) -> list[keras.Variable]:
    """Let variables have TensorFlow's names, which programs compare, such as ``scope/kernel:0``."""
    for variable in variables:
        rename(variable, f"{variable.path}:0")
    return variables


def shared(kind: str, name: str, make: Callable[[], Made], reuse: bool | str | None = None) -> Made:
    """Return what has been made under a name, or make it, as ``reuse`` says.

    Args:
        kind: What it is, to tell variables and layers apart.
        name: Its name in the scope around the call.
        make: Makes it.
        reuse: Whether it must exist already (True), may (`AUTO_REUSE`) or must not; None asks the scope.

    Raises:
        ValueError: It exists and may not, or must and does not.
    """
    reuse = reuse or _settings().reuse
    made, path = _made(kind), _path(name)
    if path in made and not reuse:
        raise ValueError(
            f"{path} exists already, of the {kind} of this model_fn. To use it again, give reuse=True or "
            "tf.AUTO_REUSE."
        )
    if path not in made and reuse is True:
        raise ValueError(
            f"{path} does not exist among the {kind} of this model_fn, so that it cannot be reused. To make "
            "it, give reuse=tf.AUTO_REUSE."
        )
    if path not in made:
        made[path] = make()
    found: Made = made[path]
    return found


def next_name(base: str) -> str:
    """Return the next free name in the scope around the call, such as ``dense_1``.

    A scope that is entered again counts from zero, and so finds its layers; one that is entered in itself
    counts on.

    Source: tensorflow/python/ops/variable_scope.py, ``_get_unique_variable_scope``.
    """
    opened = _settings().opened
    names = itertools.chain([base], (f"{base}_{number}" for number in itertools.count(1)))
    name = next(each for each in names if each not in opened)
    opened.add(name)
    return name


@contextlib.contextmanager
def kept_in(made: Kept) -> Iterator[None]:
    """Keep what code in a ``with`` block makes by name, and find it in the next block with the same dict.

    Args:
        made: Variables and layers of the blocks before, by kind and name.
    """
    kept = _KEPT.set(made)
    current = _CURRENT.set(replace(_settings(), reuse=AUTO_REUSE, opened=set()))
    try:
        yield
    finally:
        _CURRENT.reset(current)
        _KEPT.reset(kept)


def is_kept() -> bool:
    """Return whether what is made here is kept by `kept_in`."""
    return _KEPT.get() is not None


def note_made(kind: str, name: str, value: object) -> None:
    """Let `shared` find what was made under a name."""
    _made(kind).setdefault(_path(name), value)


def _path(name: str) -> str:
    return f"{_settings().name}/{name}".strip("/")


def _made(kind: str) -> dict[str, Any]:
    """Return what has been made of a kind by name: by the object whose code runs, else by the model_fn.

    Eager code of no such object finds nothing again.
    """
    kept, scope = _KEPT.get(), current_scope()
    if kept is not None:
        return kept.setdefault(kind, {})
    if scope is None:
        return {}
    made: dict[str, Any] = scope.shared.setdefault(("tensorflow 1", kind), {})
    return made
