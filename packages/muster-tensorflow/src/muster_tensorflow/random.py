"""``tf.random``: new numbers in every call, also of a compiled function."""

from muster_tensorflow.library.ops.math._more_math import random_index_shuffle as _index_shuffle
from muster_tensorflow.library.ops.nn._candidates import (
    fixed_unigram_candidate_sampler as fixed_unigram_candidate_sampler,
)
from muster_tensorflow.library.ops.nn._candidates import (
    log_uniform_candidate_sampler as log_uniform_candidate_sampler,
)
from muster_tensorflow.library.ops.nn._candidates import (
    uniform_candidate_sampler as uniform_candidate_sampler,
)
from muster_tensorflow.library.ops.random._generators import set_seed as set_seed
from muster_tensorflow.library.ops.random._random import categorical as categorical
from muster_tensorflow.library.ops.random._random import gamma as gamma
from muster_tensorflow.library.ops.random._random import normal as normal
from muster_tensorflow.library.ops.random._random import poisson as poisson
from muster_tensorflow.library.ops.random._random import shuffle as shuffle
from muster_tensorflow.library.ops.random._random import truncated_normal as truncated_normal
from muster_tensorflow.library.ops.random._random import uniform as uniform
from muster_tensorflow.library.ops.random._stateless import stateless_binomial as stateless_binomial
from muster_tensorflow.library.ops.random._stateless import stateless_categorical as stateless_categorical
from muster_tensorflow.library.ops.random._stateless import stateless_fold_in as _stateless_fold_in
from muster_tensorflow.library.ops.random._stateless import stateless_gamma as stateless_gamma
from muster_tensorflow.library.ops.random._stateless import stateless_normal as stateless_normal
from muster_tensorflow.library.ops.random._stateless import (
    stateless_parameterized_truncated_normal as stateless_parameterized_truncated_normal,
)
from muster_tensorflow.library.ops.random._stateless import stateless_poisson as stateless_poisson
from muster_tensorflow.library.ops.random._stateless import stateless_shuffle as _stateless_shuffle
from muster_tensorflow.library.ops.random._stateless import stateless_split as _stateless_split
from muster_tensorflow.library.ops.random._stateless import (
    stateless_truncated_normal as stateless_truncated_normal,
)
from muster_tensorflow.library.ops.random._stateless import stateless_uniform as stateless_uniform
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.programs.v2._generator import Generator as Generator
from muster_tensorflow.programs.v2._generator import get_global_generator as get_global_generator
from muster_tensorflow.programs.v2._generator import set_global_generator as set_global_generator

split = _stateless_split
fold_in = _stateless_fold_in
experimental = _Names(
    "tf.random.experimental",
    Generator=Generator,
    get_global_generator=get_global_generator,
    index_shuffle=_index_shuffle,
    set_global_generator=set_global_generator,
    stateless_fold_in=_stateless_fold_in,
    stateless_shuffle=_stateless_shuffle,
    stateless_split=_stateless_split,
)
