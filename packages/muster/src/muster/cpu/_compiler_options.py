"""Options for XLA's CPU compiler, passed with each program that muster compiles."""

import functools
import logging
import re
from collections.abc import Mapping

import jax

from muster.cpu._lowerings import lowerings_wanted

_log = logging.getLogger(__name__)

_LIBRARY = "xla_cpu_experimental_ynn_fusion_type"
OPTIONS: Mapping[str, str] = {
    # What YNNPACK computes: not the convolutions, which jaxlib 0.10.2 gives it too. It gets gradients of
    # kernels, where XLA's other library, Eigen, is faster.
    _LIBRARY: "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_REDUCE",
    # Else the barriers before gradients of kernels are gone when loops are fused: see _convolution.py.
    "xla_disable_hlo_passes": "cse_barrier_expander",
    # All of AVX-512's registers, where the compiler would use half of them. A step of the guide's CNN takes
    # 4 % less time, of a ResNet 3 %, of an LSTM 2 %; processors without AVX-512 take what they have.
    "xla_cpu_prefer_vector_width": "512",
}
# For convolutions with groups YNNPACK is faster than Eigen.
_GROUPS = re.compile(r"(?:feature|batch)_group_count = (?!1\b)\d")


def compiler_options(program: str) -> dict[str, str | bool]:
    """Return the compiler options for a step, for ``jax.stages.Lowered.compile``.

    Args:
        program: The text of the step, from ``Lowered.as_text``.

    Returns:
        Option -> value. Empty where the default platform is not the CPU, after ``use_cpu_lowerings(False)``,
        and if this jaxlib does not know the options.
    """
    if jax.default_backend() != "cpu" or not lowerings_wanted() or not understood(tuple(OPTIONS.items())):
        return {}
    without = _LIBRARY if _GROUPS.search(program) else None
    return {option: value for option, value in OPTIONS.items() if option != without}


@functools.cache
def understood(options: tuple[tuple[str, str], ...]) -> bool:
    """Return whether the compiler takes these options, after trying once with a program of one constant."""
    try:
        jax.jit(lambda: 0).lower().compile(compiler_options=dict(options))
    except jax.errors.JaxRuntimeError as exc:
        _log.debug("Steps are compiled without %s: %s", dict(options), exc)
        return False
    return True
