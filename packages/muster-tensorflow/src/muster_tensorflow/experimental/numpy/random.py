"""``tf.experimental.numpy.random``."""

from muster_tensorflow.library.ops.random._numpy_random import poisson as poisson
from muster_tensorflow.library.ops.random._numpy_random import rand as rand
from muster_tensorflow.library.ops.random._numpy_random import randint as randint
from muster_tensorflow.library.ops.random._numpy_random import randn as randn
from muster_tensorflow.library.ops.random._numpy_random import random as random
from muster_tensorflow.library.ops.random._numpy_random import seed as seed
from muster_tensorflow.library.ops.random._numpy_random import standard_normal as standard_normal
from muster_tensorflow.library.ops.random._numpy_random import uniform as uniform
