"""The list of elementwise operations of JAX."""

from jax.extend import core as jex
from jax.extend.core import primitives


def named(names: str) -> list[jex.Primitive]:
    """Return JAX's primitives of these names, which are separated by spaces."""
    return [getattr(primitives, f"{name}_p") for name in names.split()]


# These are new in JAX 0.12.
_NEW = [name for name in ("log2", "one_minus_square") if hasattr(primitives, f"{name}_p")]
ELEMENTWISE = named(
    "abs acos acosh add add_jaxvals and asin asinh atan atan2 atanh bitcast_convert_type cbrt ceil clamp clz "
    "convert_element_type copy cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt imag "
    "integer_pow is_finite le lgamma log log1p logistic lt max min mul ne neg nextafter not or "
    "population_count pow real reduce_precision rem round rsqrt select_n shift_left "
    "shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh "
    "xor"
) + named(" ".join(_NEW))
