"""Computations as StableHLO modules, for any number of rows: made, read and compiled."""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
from jax.extend import core as jex

from muster import cpu
from muster._arrays import AnyArray
from muster._errors import SavedModelError

PLATFORMS = ("cpu", "cuda")

# What JAX writes into modules of the lines of source that operations come from: of no frame, none. The first
# setting is JAX's default; without it there would be the frame of the user's code.
_NO_SOURCES = {"jax_include_full_tracebacks_in_locations": True, "jax_traceback_in_locations_limit": 0}
_settings = threading.Lock()

Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class Computation:
    """The computation of a model, traced once; signatures take parts of it.

    Attributes:
        jaxpr: Takes the weights and then the arguments, returns the outputs.
        weights: The weights' values by name.
        arguments: The arguments' shapes and dtypes by key; sizes may be symbolic.
        outputs: The names of the outputs.
    """

    jaxpr: jex.ClosedJaxpr
    weights: Mapping[str, AnyArray]
    arguments: Mapping[str, jax.ShapeDtypeStruct]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Module:
    """A part of a computation, to store.

    Attributes:
        data: A serialized ``jax.export.Exported`` of ``(weights, arguments) -> outputs``, a list, a dict and
            a list.
        weights: The names of the weights that it takes, in order.
        arguments: The keys of its arguments.
        outputs: The shapes and dtypes of the outputs that were asked for.
    """

    data: bytes
    weights: tuple[str, ...]
    arguments: tuple[str, ...]
    outputs: tuple[jax.ShapeDtypeStruct, ...]


def trace(
    function: Callable[[Arrays, Arrays], Arrays],
    weights: Mapping[str, AnyArray],
    arguments: Mapping[str, jax.ShapeDtypeStruct],
) -> Computation:
    """Trace a function of weights and arguments by name, which returns arrays by name.

    Raises:
        SavedModelError: It does not work for any number of rows.
    """
    names: list[str] = []

    def flat(weights: Arrays, arguments: Arrays) -> list[Any]:
        outputs = function(weights, arguments)
        names[:] = outputs
        return [jnp.asarray(each) for each in outputs.values()]

    shapes = {name: jax.ShapeDtypeStruct(value.shape, value.dtype) for name, value in weights.items()}
    with any_number_of_rows():
        closed = jax.make_jaxpr(flat)(dict(sorted(shapes.items())), dict(sorted(arguments.items())))
    return Computation(closed, weights, arguments, tuple(names))


def to_module(computation: Computation, outputs: Sequence[str]) -> Module:
    """Return the part of a computation that some of its outputs need, for `PLATFORMS`.

    Raises:
        SavedModelError: It does not work for any number of rows.
    """
    jaxpr = computation.jaxpr.jaxpr
    places = [computation.outputs.index(name) for name in outputs]
    needed = _needed(jaxpr, [jaxpr.outvars[place] for place in places])
    names = [("weights", name) for name in sorted(computation.weights)]
    names += [("arguments", key) for key in sorted(computation.arguments)]
    used = {name: each for name, each in zip(names, jaxpr.invars, strict=True) if each in needed}
    avals = dict(zip(names, computation.jaxpr.in_avals, strict=True))
    weights = tuple(name for kind, name in used if kind == "weights")
    # One says how many rows there are, even if its values do not matter.
    keys = tuple(key for kind, key in used if kind == "arguments") or tuple(computation.arguments)[:1]

    # Without what is not needed: a size of an argument that the module does not take would be unknown.
    eqns = [eqn for eqn in jaxpr.eqns if needed.intersection(eqn.outvars)]
    part = jaxpr.replace(
        invars=list(used.values()),
        outvars=[jaxpr.outvars[place] for place in places],
        eqns=eqns,
        effects=set().union(*(eqn.effects for eqn in eqns)),
        debug_info=jex.DebugInfo("muster", "part of a model", ("",) * len(used), ("",) * len(places)),
    )

    def compute(values: list[Any], arguments: Arrays) -> list[Any]:
        known = {("weights", name): value for name, value in zip(weights, values, strict=True)}
        known |= {("arguments", key): value for key, value in arguments.items()}
        of_part = jex.jaxpr_as_fun(jex.ClosedJaxpr(part, computation.jaxpr.consts))
        results: list[Any] = of_part(*(known[name] for name in used))
        return results

    shapes = [_shape_of(avals["weights", name]) for name in weights]
    exported = _exported(
        jax.jit(compute, keep_unused=True), shapes, {key: computation.arguments[key] for key in keys}
    )
    return Module(bytes(exported.serialize()), weights, keys, tuple(map(_shape_of, exported.out_avals)))


def normalizer_module(normalizer: Callable[[Any], Any], argument: jax.ShapeDtypeStruct) -> bytes:
    """Return a ``normalizer_fn`` of a column as a module.

    Raises:
        SavedModelError: It computes with something else than JAX, or not for any number of rows.
    """
    return bytes(_exported(jax.jit(normalizer), argument).serialize())


def _exported(function: Any, *shapes: Any) -> jax.export.Exported:
    """Lower a jitted function for `PLATFORMS`, without what says where on this machine its source lies."""
    with any_number_of_rows(), _without_sources():
        return jax.export.export(function, platforms=PLATFORMS)(*shapes)


@contextlib.contextmanager
def _without_sources() -> Iterator[None]:
    """Let JAX write no paths of source files into modules; its settings are those of the process."""
    with _settings:
        before = {name: getattr(jax.config, name) for name in _NO_SOURCES}
        try:
            for name, value in _NO_SOURCES.items():
                jax.config.update(name, value)
            yield
        finally:
            for name, value in before.items():
                jax.config.update(name, value)


def read_module(data: bytes, name: str) -> Callable[..., Any]:
    """Return the function that a module holds; it is compiled for each shape of its arguments.

    Args:
        data: What `Module.data` held.
        name: The name of its file, for messages.

    Raises:
        SavedModelError: This version of JAX cannot read it, or it is for another platform than this one.
    """
    try:
        exported = jax.export.deserialize(bytearray(data))
    except Exception as exc:  # flatbuffers and MLIR have exceptions of their own for other versions' modules
        raise SavedModelError(
            f"JAX {jax.__version__} cannot read the module {name}: {exc}. Export the model again."
        ) from exc
    platform = {"gpu": "cuda"}.get(jax.default_backend(), jax.default_backend())
    if platform not in exported.platforms:
        raise SavedModelError(
            f"The module {name} is for {' and '.join(exported.platforms)}, and JAX runs on {platform} here. "
            "Set JAX_PLATFORMS=cpu."
        )

    @functools.lru_cache(maxsize=128)
    def compiled(shapes: tuple[Any, ...], structure: Any) -> Any:
        lowered = jax.jit(exported.call).lower(*jax.tree.unflatten(structure, shapes))
        # With the options of steps: results differ from those of `Estimator.predict` by rounding only.
        return lowered.compile(compiler_options=cpu.compiler_options(lowered.as_text()))

    def call(*arguments: Any) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return exported.call(*arguments)
        shapes = tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves)
        return compiled(shapes, structure)(*arguments)

    return call


@contextlib.contextmanager
def any_number_of_rows() -> Iterator[None]:
    """Say of errors that come of sizes without a number what to do about them.

    Raises:
        SavedModelError: What is traced needs the number.
    """
    try:
        yield
    except (jax.errors.InconclusiveDimensionOperation, jax.errors.JAXTypeError) as exc:
        raise SavedModelError(
            f"The model cannot be exported for any number of rows: {exc} Give the inputs sizes instead of "
            "None, such as a default_batch_size, or compute without Python's branches on sizes."
        ) from exc


def fixed_shape(shape: Sequence[Any]) -> tuple[int | None, ...]:
    """Return a shape with None for symbolic sizes."""
    return tuple(size if isinstance(size, int) else None for size in shape)


def _needed(jaxpr: jex.Jaxpr, targets: Sequence[Any]) -> set[Any]:
    """Return the variables from which targets are computed, and those on the way."""
    needed = {each for each in targets if isinstance(each, jex.Var)}
    for eqn in reversed(jaxpr.eqns):
        if needed.intersection(eqn.outvars):
            needed.update(each for each in eqn.invars if isinstance(each, jex.Var))
    return needed


def _shape_of(aval: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype)
