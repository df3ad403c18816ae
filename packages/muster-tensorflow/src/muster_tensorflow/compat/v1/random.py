"""``tf.compat.v1.random``: the names of ``tf.random``, and of the seed."""

from typing import Any

from muster_tensorflow import random as _random
from muster_tensorflow.library.ops.random._fixed_seeds import get_seed as get_seed
from muster_tensorflow.library.ops.random._generators import set_seed as _set_seed
from muster_tensorflow.library.ops.random._random import multinomial as multinomial
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v1.operations._old_parameters import random_poisson as poisson
from muster_tensorflow.programs.v1.operations._old_parameters import (
    stateless_multinomial as stateless_multinomial,
)

set_random_seed = _set_seed


def __getattr__(name: str) -> Any:
    return _passed_on(_random, __name__, name)
