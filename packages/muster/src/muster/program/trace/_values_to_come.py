"""Record code that uses the initial value of a large variable, without computing or reading that value."""

from typing import Any

import jax
import numpy as np
from jax.extend import core as jex

from muster._arrays import LazyArray

_value_to_come_p = jex.Primitive("muster_value_to_come")
_value_to_come_p.def_abstract_eval(lambda *, of: jax.core.ShapedArray(of.shape, of.dtype))
# Should an initial value of another variable be computed from it, it is made after all.
_value_to_come_p.def_impl(lambda *, of: jax.device_put(np.asarray(of)))


def value_to_come(of: LazyArray) -> Any:
    """Return what stands for a value while code is traced; it is made only if it is needed."""
    return _value_to_come_p.bind(of=of)
