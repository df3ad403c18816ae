"""oneDNN, for operations that XLA's CPU programs hand to it.

The package ``onednn-cpu-gomp`` (extra ``onednn``) has the library, and the folder ``kernels`` the functions
by which XLA calls it: the machine's C compiler compiles them when they are first wanted, in two seconds, for
this processor and for good.
"""

import contextlib
import ctypes
import functools
import hashlib
import importlib.metadata
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from muster._compilation_cache import processor
from muster._paths import require_trusted, user_cache

_log = logging.getLogger(__name__)

_SOURCES = Path(__file__).with_name("kernels")
_LIBRARY, _HEADERS = "onednn-cpu-gomp", "onednn-devel-cpu-gomp"
_OPTIONS = (
    "-std=gnu11",
    "-O3",
    "-march=native",
    "-mprefer-vector-width=512",
    "-fno-math-errno",
    "-fopenmp",
    "-shared",
    "-fPIC",
)
_TARGETS = (
    "muster_convolution", "muster_product", "muster_lstm_forward", "muster_lstm_backward",
    "muster_attention_forward", "muster_attention_backward", "muster_layer_norm_forward",
    "muster_layer_norm_backward", "muster_moments", "muster_weighted_sums", "muster_gelu_forward",
    "muster_gelu_backward",
)  # fmt: skip
_COMPILER_SECS = 60
LEAST_NUMBERS = 2**15
"""Normalization and activations of fewer numbers stay with XLA."""


class _Here(threading.local):
    """Whether what this thread lowers may call kernels."""

    allowed = True


_here = _Here()


@contextlib.contextmanager
def kernels_allowed(allowed: bool) -> Iterator[None]:
    """Let this thread lower programs that call kernels, or not: those that another process may run."""
    before, _here.allowed = _here.allowed, allowed
    try:
        yield
    finally:
        _here.allowed = before


class _MissingError(Exception):
    """Something that the kernels need is not here; the message says what."""


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """Return the compiled kernels, registered with XLA, or None where this machine cannot have them.

    That is so without the extra ``onednn``, without a C compiler, and on other processors than x86-64. The
    logger says why: at level INFO if only the compiler is missing, else at level DEBUG.
    """
    try:
        found = _load()
    except (_MissingError, OSError) as exc:
        level = logging.DEBUG if isinstance(exc, _MissingError) and not _is_installed() else logging.INFO
        _log.log(level, "Steps do without oneDNN: %s", exc)
        return None
    for target in _TARGETS:
        jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(getattr(found, target)), platform="cpu")
    _log.debug("Steps may use oneDNN %s.", importlib.metadata.version(_LIBRARY))
    return found


def has_kernels() -> bool:
    """Return whether this machine has oneDNN's kernels."""
    return kernels() is not None


def computes(kind: str, spec: Sequence[int]) -> bool:
    """Return whether oneDNN is here and computes this.

    Args:
        kind: The kernel, such as ``"convolution"``.
        spec: What it is to compute, and the sizes, as its file in ``kernels`` lists them.
    """
    library = kernels()
    if library is None or not _here.allowed:
        return False
    prepare = getattr(library, f"muster_prepare_{kind}", None)
    sizes = np.asarray(spec, np.int64)
    status = prepare(sizes.ctypes, ctypes.c_int64(sizes.size)) if prepare else 0
    if status:
        _log.debug("oneDNN does not compute the %s %s: status %d.", kind, spec, status)
    return not status


def call(
    kind: str, spec: Sequence[int], results: Sequence[jax.ShapeDtypeStruct], *operands: jax.Array
) -> list[jax.Array]:
    """Return what a kernel computes.

    Args:
        kind: The kernel.
        spec: As `computes` takes it.
        results: Shapes of the results, float32.
        operands: Arrays of float32, as the kernel takes them.
    """
    return list(jax.ffi.ffi_call(f"muster_{kind}", results)(*operands, spec=np.asarray(spec, np.int64)))


Avals = Sequence[jax.core.ShapedArray]
Plan = Callable[..., tuple[int, ...]]
"""Takes the operands' shapes; returns what `call` takes as its spec."""


def with_kernel(
    kind: str,
    plan: Plan,
    plain: Callable[..., Sequence[jax.Array]],
    batch_axes: tuple[Sequence[int | None], Sequence[int | None]] | None,
    *operands: jax.Array,
) -> list[jax.Array]:
    """Compute by a kernel in steps on CPUs that this process compiles, and elsewhere as JAX does.

    Args:
        kind: The kernel.
        plan: What tells it the sizes.
        plain: What computes the same in JAX, for exported programs, derivatives and other platforms.
        batch_axes: The axis of each operand, then of each result, that has the examples, for workers which
            have some of them each; None for an operand that is the same for all examples, and for a result
            that is a sum over them. None in place of all if such workers cannot use the kernel.
        operands: Arrays of float32.
    """
    axes = batch_axes and (tuple(batch_axes[0]), tuple(batch_axes[1]))
    found: list[jax.Array] = kernel_p.bind(*operands, kind=kind, plan=plan, plain=plain, batch_axes=axes)
    return found


kernel_p = Primitive("muster_kernel")
kernel_p.multiple_results = True


def _compute(*operands: jax.Array, plain: Callable[..., Sequence[jax.Array]], **_: object) -> list[jax.Array]:
    return list(plain(*operands))


def _shapes(*avals: Any, plain: Callable[..., Sequence[jax.Array]], **_: object) -> list[Any]:
    found = jax.eval_shape(plain, *(jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals))
    return [jax.core.ShapedArray(each.shape, each.dtype) for each in found]


def _batched(
    operands: Sequence[Any], dims: Sequence[Any], *, plain: Callable[..., Any], **_: object
) -> tuple[list[jax.Array], list[int]]:
    found = list(jax.vmap(plain, in_axes=dims)(*operands))
    return found, [0] * len(found)


def _differentiated(
    primals: Sequence[Any], tangents: Sequence[Any], *, plain: Callable[..., Any], **_: object
) -> tuple[Any, Any]:
    known = tuple(ad.instantiate_zeros(each) for each in tangents)
    found: tuple[Any, Any] = jax.jvp(lambda *each: list(plain(*each)), tuple(primals), known)
    return found


kernel_p.def_impl(_compute)
kernel_p.def_abstract_eval(_shapes)
batching.primitive_batchers[kernel_p] = _batched
ad.primitive_jvps[kernel_p] = _differentiated


def lower_kernel(ctx: mlir.LoweringRuleContext, *operands: Any, **params: Any) -> Any:
    """Lower a kernel to a call of it, or to what computes the same in JAX."""
    computation = params["plain"]
    if kernels() is not None and _here.allowed:
        ours, made = cast(tuple[Avals, Avals], (ctx.avals_in, ctx.avals_out))
        results = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in made]
        spec = params["plan"](*(aval.shape for aval in ours))
        computation = partial(call, params["kind"], spec, results)
    return mlir.lower_fun(computation, multiple_results=True)(ctx, *operands)


def _lower_plain(
    ctx: mlir.LoweringRuleContext, *operands: Any, plain: Callable[..., Any], **_: object
) -> Any:
    return mlir.lower_fun(plain, multiple_results=True)(ctx, *operands)


mlir.register_lowering(kernel_p, _lower_plain)


def _is_installed() -> bool:
    try:
        importlib.metadata.version(_LIBRARY)
        importlib.metadata.version(_HEADERS)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _load() -> ctypes.CDLL:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise _MissingError(
            f"its package is for Linux on x86-64, not {sys.platform} on {platform.machine()}."
        )
    if not _is_installed():
        raise _MissingError(f"the packages {_LIBRARY} and {_HEADERS} are not installed (extra onednn).")
    library, header = _file(_LIBRARY, "libdnnl.so.3"), _file(_HEADERS, "oneapi/dnnl/dnnl.h")
    includes = [f"-I{header.parents[2]}", f"-I{jax.ffi.include_dir()}"]
    sources = sorted(_SOURCES.iterdir())
    texts = [each.read_bytes() for each in sources]
    made_of = repr((texts, _OPTIONS, jax.__version__, str(library), processor()))
    folder = user_cache() / "kernels"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    require_trusted(folder)
    built = folder / f"{hashlib.sha256(made_of.encode()).hexdigest()[:20]}.so"
    if not built.exists():
        code = [str(each) for each in sources if each.suffix == ".c"]
        _compile([*_OPTIONS, *includes, *code, str(library), f"-Wl,-rpath,{library.parent}", "-lm"], built)
    return ctypes.CDLL(str(built))


def _file(package: str, name: str) -> Path:
    """Return where a file of an installed package is."""
    for file in importlib.metadata.files(package) or ():
        if file.as_posix().endswith(name):
            return Path(str(file.locate())).resolve()
    raise _MissingError(f"the package {package} has no {name}.")


def _compile(arguments: Sequence[str], built: Path) -> None:
    wanted = os.environ.get("CC", "").split()
    compiler = next(filter(None, map(shutil.which, wanted[:1] or ("cc", "gcc", "clang"))), None)
    if compiler is None:
        asked = f"CC={wanted[0]}" if wanted else "cc, gcc and clang are not on PATH"
        raise _MissingError(f"there is no C compiler: {asked}. It compiles what calls oneDNN.")
    with tempfile.TemporaryDirectory(dir=built.parent) as folder:
        made = Path(folder) / built.name
        try:
            subprocess.run(
                [compiler, *wanted[1:], *arguments, "-o", str(made)],
                check=True, capture_output=True, text=True, timeout=_COMPILER_SECS,
            )  # fmt: skip
        except subprocess.SubprocessError as exc:
            said = getattr(exc, "stderr", None) or str(exc)
            raise _MissingError(
                f"{Path(compiler).name} could not compile {_SOURCES}: {said.strip()[-1000:]}"
            ) from exc
        made.replace(built)  # several processes may be at it
