"""Options for XLA's CPU compiler, given with each program that muster compiles itself."""

import functools
import logging
import re
from collections.abc import Mapping
from typing import Any

import jax

from muster.cpu._lowerings import lowerings_wanted

_log = logging.getLogger(__name__)

# What YNNPACK computes: not the convolutions, which jaxlib 0.10.2 gives it too. It gets gradients of kernels,
# where XLA's other library, Eigen, is faster.
OPTIONS: Mapping[str, str] = {
    "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_REDUCE",
    # Else the barriers before gradients of kernels are gone when loops are fused: see _convolution.py.
    "xla_disable_hlo_passes": "cse_barrier_expander",
}
# With groups it is the other way round: YNNPACK is faster.
_GROUPS = re.compile(r"(?:feature|batch)_group_count = (?!1\b)\d")


def compiler_options(program: str) -> dict[str, Any]:
    """What to give to ``jax.stages.Lowered.compile`` for a step, as things stand.

    Args:
        program: the step as ``Lowered.as_text`` gives it.

    Returns:
        Option -> value. Empty where the default platform is not the CPU, after ``use_cpu_lowerings(False)``,
        for a program that has convolutions with groups, and where this jaxlib does not know the options.
    """
    if jax.default_backend() != "cpu" or not lowerings_wanted() or _GROUPS.search(program):
        return {}
    return dict(OPTIONS) if understood(tuple(OPTIONS.items())) else {}


@functools.cache
def understood(options: tuple[tuple[str, str], ...]) -> bool:
    """Whether the compiler takes these options, found by compiling a program of one constant, once."""
    try:
        jax.jit(lambda: 0).lower().compile(compiler_options=dict(options))
    except jax.errors.JaxRuntimeError as exc:
        _log.debug("Steps are compiled without %s: %s", dict(options), exc)
        return False
    return True
