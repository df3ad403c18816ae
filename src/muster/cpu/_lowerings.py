"""Which lowerings there are, and whether JAX uses them."""

import contextlib
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
from jax import lax
from jax.experimental.compute_on import compute_on
from jax.extend.core import Primitive
from jax.interpreters import mlir

from muster.cpu._convolution import convolution
from muster.cpu._max_pooling import max_pooling_gradient
from muster.cpu._sum_pooling import sum_pooling

Computation = Callable[..., jax.Array]

Chooser = Callable[..., Computation | None]
"""From the avals of the operands and the parameters of a primitive: what computes the same faster, a
function of the operands, or None where nothing does."""

CHOOSERS: Mapping[Primitive, Chooser] = {
    lax.conv_general_dilated_p: convolution,
    lax.reduce_window_sum_p: sum_pooling,
    lax.select_and_scatter_add_p: max_pooling_gradient,
}


class _Registration:
    """What stands in JAX's table, which is one for the process; so this is, too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._registered = False
        self.wanted = True

    def prepare(self) -> None:
        with self._lock:
            if self.wanted and not self._registered and jax.default_backend() == "cpu":
                self._register()

    def use(self, use: bool) -> None:
        with self._lock:
            before = self.wanted and self._registered
            self.wanted = use
            if use and not self._registered:  # JAX is not asked for its platform, which would start it
                self._register()
            if use != before:
                jax.clear_caches()

    def _register(self) -> None:
        for primitive, chooser in CHOOSERS.items():
            mlir.register_lowering(primitive, _rule(primitive, chooser), platform="cpu")
        self._registered = True


_REGISTRATION = _Registration()


def prepare() -> None:
    """Have JAX use the lowerings from now on, unless ``use_cpu_lowerings(False)`` was called."""
    _REGISTRATION.prepare()


def use_cpu_lowerings(use: bool) -> None:
    """Say whether JAX on CPU computes some operations muster's way, which is faster, or its own.

    By default it does so from the first step that muster traces, if CPU is its default platform. The choice
    is for the whole process: JAX has one table of lowerings, so functions that the program compiles itself
    follow it too. It may change at any time, and what is compiled from then on follows. To that end a change
    empties JAX's caches of compiled functions; a step that an Estimator is running is not compiled again.
    The compiler's options that muster gives with its own programs follow the choice as well.

    Args:
        use: whether to use muster's lowerings.
    """
    _REGISTRATION.use(use)


def lowerings_wanted() -> bool:
    """Whether ``use_cpu_lowerings`` was called with True last, or not at all."""
    return _REGISTRATION.wanted


def _rule(primitive: Primitive, chooser: Chooser) -> Callable[..., Any]:
    """How JAX lowers the primitive on CPU: muster's way where that is wanted and applies, or else its own.

    What stood in JAX's table before cannot be asked for by a public name. But JAX lowers these primitives
    for GPUs by the same rules as for CPU, unless somebody has registered others, so the other cases are
    lowered as if for those. The tests hold that this is JAX's own program for CPU, letter by letter, but for
    what ``compute_on`` marks as the host's, which means nothing on CPU. Tried with jax 0.10.2.
    """

    def lower(ctx: mlir.LoweringRuleContext, *operands: Any, **params: Any) -> Any:
        if lowerings_wanted() and _sizes_are_known(ctx):
            computation = chooser(*ctx.avals_in, **params)
            if computation is not None:
                return mlir.lower_fun(computation, multiple_results=False)(ctx, *operands)
        with contextlib.ExitStack() as as_if_for_gpus:
            if ctx.jaxpr_eqn_ctx is not None and ctx.jaxpr_eqn_ctx.compute_type == "device_host":
                as_if_for_gpus.enter_context(compute_on("device"))  # the host's would be this rule again
            own = mlir.lower_fun(partial(primitive.bind, **params), multiple_results=False)
            return own(ctx.replace(platforms=("cuda",)), *operands)

    return lower


def _sizes_are_known(ctx: mlir.LoweringRuleContext) -> bool:
    return all(isinstance(size, int) for aval in (*ctx.avals_in, *ctx.avals_out) for size in aval.shape)
