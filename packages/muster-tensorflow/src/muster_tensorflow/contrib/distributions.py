"""``tf.contrib.distributions``: those of ``tf.distributions``."""

from muster_tensorflow.library.distributions import FULLY_REPARAMETERIZED as FULLY_REPARAMETERIZED
from muster_tensorflow.library.distributions import (
    NOT_REPARAMETERIZED as NOT_REPARAMETERIZED,
)
from muster_tensorflow.library.distributions import Bernoulli as Bernoulli
from muster_tensorflow.library.distributions import Beta as Beta
from muster_tensorflow.library.distributions import Categorical as Categorical
from muster_tensorflow.library.distributions import Dirichlet as Dirichlet
from muster_tensorflow.library.distributions import Distribution as Distribution
from muster_tensorflow.library.distributions import Exponential as Exponential
from muster_tensorflow.library.distributions import Gamma as Gamma
from muster_tensorflow.library.distributions import Laplace as Laplace
from muster_tensorflow.library.distributions import Normal as Normal
from muster_tensorflow.library.distributions import RegisterKL as RegisterKL
from muster_tensorflow.library.distributions import (
    ReparameterizationType as ReparameterizationType,
)
from muster_tensorflow.library.distributions import StudentT as StudentT
from muster_tensorflow.library.distributions import Uniform as Uniform
from muster_tensorflow.library.distributions import kl_divergence as kl_divergence
