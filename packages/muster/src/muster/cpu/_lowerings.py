"""Register the lowerings with JAX."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import jax
from jax import lax
from jax.experimental.compute_on import compute_on
from jax.extend.core import Primitive
from jax.interpreters import mlir

from muster.cpu._convolution import convolution
from muster.cpu._dot import check_algorithm, dot
from muster.cpu._kernels import kernel_p, kernels_allowed, lower_kernel
from muster.cpu._malloc import set_malloc
from muster.cpu._max_pooling import max_pooling_gradient
from muster.cpu._sum_pooling import sum_pooling

Computation = Callable[..., jax.Array]

Chooser = Callable[..., Computation | None]
"""Takes the operands' avals and the primitive's parameters; returns a faster function of the operands, or
None to leave the operation to JAX."""

CHOOSERS: Mapping[Primitive, Chooser] = {
    lax.conv_general_dilated_p: convolution,
    lax.dot_general_p: dot,
    lax.reduce_window_sum_p: sum_pooling,
    lax.select_and_scatter_add_p: max_pooling_gradient,
}


# JAX has one table of lowerings for the process, and so there is one registration.
_lock = threading.Lock()
_registered = False
_wanted = True
# M_ARENA_MAX in glibc's malloc.h. Other heaps have 64 MiB at most, and return larger blocks to the system.
_ONE_HEAP = {-8: 1}
# Threads wait for each other where they share a heap; with more processors that was not measured.
_MOST_SHARING = 16


class _Exports(threading.local):
    """Whether what this thread exports is for the processes of its job alone."""

    for_this_job = False


_exports = _Exports()


def prepare() -> None:
    """Register the lowerings, unless ``use_cpu_lowerings(False)`` was called."""
    share_heap()
    with _lock:
        if _wanted and not _registered and jax.default_backend() == "cpu":
            _register()


def share_heap() -> None:
    """Let threads that start from now on share the main thread's heap, for the sake of `keep_memory`.

    This takes effect for good. Does nothing after ``use_cpu_lowerings(False)``, with more than 16 processors,
    without glibc, and where the environment has settings for malloc.
    """
    if _wanted and (os.cpu_count() or 1) <= _MOST_SHARING:
        set_malloc(_ONE_HEAP)


def use_cpu_lowerings(use: bool) -> None:
    """Turn muster's faster lowerings for JAX on CPU on or off; they are on by default.

    By default they are registered when muster first traces a step, if CPU is JAX's default platform. JAX has
    one table of lowerings for the process, so functions that the program compiles itself use them, too.

    A change affects functions that are compiled afterwards. It empties JAX's caches of compiled functions; a
    step that an Estimator is running is not compiled again. muster passes its options for XLA's CPU compiler
    only while the lowerings are on.

    Args:
        use: True for muster's lowerings, False for JAX's.
    """
    global _wanted
    with _lock:
        before = _wanted and _registered
        _wanted = use
        if use and not _registered:  # without asking JAX for its platform, which would start it
            _register()
        if use != before:
            jax.clear_caches()


def lowerings_wanted() -> bool:
    """Return whether muster's lowerings are on: by default, and after ``use_cpu_lowerings(True)``."""
    return _wanted


def replaces_loops() -> bool:
    """Return whether `lstm` and `gru` are to compute recurrent layers in steps, not Keras' loops."""
    return _wanted and jax.default_backend() == "cpu"


@contextlib.contextmanager
def exported_for_this_job() -> Iterator[None]:
    """Let modules of `jax.export` have the lowerings, too: those that only workers of the job run."""
    before, _exports.for_this_job = _exports.for_this_job, True
    try:
        yield
    finally:
        _exports.for_this_job = before


def _register() -> None:
    global _registered
    for primitive, chooser in CHOOSERS.items():
        mlir.register_lowering(primitive, _rule(primitive, chooser), platform="cpu")
    mlir.register_lowering(kernel_p, _lower_kernel, platform="cpu")
    _registered = True


def _lower_kernel(ctx: mlir.LoweringRuleContext, *operands: Any, **params: Any) -> Any:
    with kernels_allowed(lowerings_wanted() and _is_for_this_device(ctx)):
        return lower_kernel(ctx, *operands, **params)


def _rule(primitive: Primitive, chooser: Chooser) -> Callable[..., Any]:
    """Return the rule by which JAX lowers the primitive on CPU: muster's where it applies, else JAX's.

    JAX's rule in the table has no public name. But JAX lowers these primitives for GPUs by the same rules as
    for CPU, unless others were registered, so the other cases are lowered as if for GPUs. The tests check
    that this gives JAX's program for CPU, letter by letter, except for marks of ``compute_on`` for the host,
    which have no meaning on CPU, and for algorithms of products that CPUs do not have. Tried with jax 0.10.2.
    """

    def lower(ctx: mlir.LoweringRuleContext, *operands: Any, **params: Any) -> Any:
        stays_here = _exports.for_this_job or not _is_exported(ctx)
        if lowerings_wanted() and stays_here and _sizes_are_known(ctx):
            with kernels_allowed(_is_for_this_device(ctx)):
                computation = chooser(*ctx.avals_in, **params)
            if computation is not None:
                return mlir.lower_fun(computation, multiple_results=False)(ctx, *operands)
        if primitive is lax.dot_general_p:
            check_algorithm(params["precision"])
        with contextlib.ExitStack() as as_if_for_gpus:
            if ctx.jaxpr_eqn_ctx is not None and ctx.jaxpr_eqn_ctx.compute_type == "device_host":
                # Lowering for the host would call this rule again.
                as_if_for_gpus.enter_context(compute_on("device"))
            original = mlir.lower_fun(partial(primitive.bind, **params), multiple_results=False)
            return original(ctx.replace(platforms=("cuda",)), *operands)

    return lower


def _is_exported(ctx: mlir.LoweringRuleContext) -> bool:
    """Return whether this lowers a module of `jax.export`, which may run on another processor, or none."""
    exported: bool = ctx.module_context.lowering_parameters.for_export
    return exported


def _is_for_this_device(ctx: mlir.LoweringRuleContext) -> bool:
    """Return whether one device of this process runs it on its own arrays: XLA cannot divide kernels."""
    context: Any = ctx.module_context.axis_context
    mesh = getattr(context, "mesh", None)
    if mesh is None:
        divided_by_xla = getattr(context, "num_devices", 1) > 1
    else:
        divided_by_xla = set(context.manual_axes) != set(mesh.axis_names)
    return not (divided_by_xla or _is_exported(ctx))


def _sizes_are_known(ctx: mlir.LoweringRuleContext) -> bool:
    return all(isinstance(size, int) for aval in (*ctx.avals_in, *ctx.avals_out) for size in aval.shape)
