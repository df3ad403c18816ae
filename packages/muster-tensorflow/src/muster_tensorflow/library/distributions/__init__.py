"""``tf.distributions``: samples, densities, moments, and divergences of two distributions."""

from muster_tensorflow.library.distributions._continuous import Exponential as Exponential
from muster_tensorflow.library.distributions._continuous import Gamma as Gamma
from muster_tensorflow.library.distributions._continuous import Laplace as Laplace
from muster_tensorflow.library.distributions._continuous import Normal as Normal
from muster_tensorflow.library.distributions._continuous import StudentT as StudentT
from muster_tensorflow.library.distributions._continuous import Uniform as Uniform
from muster_tensorflow.library.distributions._discrete import Bernoulli as Bernoulli
from muster_tensorflow.library.distributions._discrete import Categorical as Categorical
from muster_tensorflow.library.distributions._distribution import (
    FULLY_REPARAMETERIZED as FULLY_REPARAMETERIZED,
)
from muster_tensorflow.library.distributions._distribution import (
    NOT_REPARAMETERIZED as NOT_REPARAMETERIZED,
)
from muster_tensorflow.library.distributions._distribution import Distribution as Distribution
from muster_tensorflow.library.distributions._distribution import (
    ReparameterizationType as ReparameterizationType,
)
from muster_tensorflow.library.distributions._divergence import RegisterKL as RegisterKL
from muster_tensorflow.library.distributions._divergence import kl_divergence as kl_divergence
from muster_tensorflow.library.distributions._simplex import Beta as Beta
from muster_tensorflow.library.distributions._simplex import Dirichlet as Dirichlet
