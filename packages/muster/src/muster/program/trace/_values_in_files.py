"""Record code that uses the value of a variable that lies in a file, without reading it."""

from typing import Any

import jax
import numpy as np
from jax.extend import core as jex

from muster.checkpoint import MappedArray

_value_in_file_p = jex.Primitive("muster_value_in_file")
_value_in_file_p.def_abstract_eval(lambda *, array: jax.core.ShapedArray(array.shape, array.dtype))
# Should an initial value of another variable be computed from it, it is read after all.
_value_in_file_p.def_impl(lambda *, array: jax.device_put(np.asarray(array)))


def value_in_file(array: MappedArray) -> Any:
    """Return what stands for the value of an array while code is traced; it is read if it is needed."""
    return _value_in_file_p.bind(array=array)
