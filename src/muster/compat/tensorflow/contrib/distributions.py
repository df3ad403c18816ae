"""``tf.contrib.distributions``: those of ``tf.distributions``."""

from muster.compat.v1.distributions import FULLY_REPARAMETERIZED as FULLY_REPARAMETERIZED
from muster.compat.v1.distributions import (
    NOT_REPARAMETERIZED as NOT_REPARAMETERIZED,
)
from muster.compat.v1.distributions import Bernoulli as Bernoulli
from muster.compat.v1.distributions import Beta as Beta
from muster.compat.v1.distributions import Categorical as Categorical
from muster.compat.v1.distributions import Dirichlet as Dirichlet
from muster.compat.v1.distributions import Distribution as Distribution
from muster.compat.v1.distributions import Exponential as Exponential
from muster.compat.v1.distributions import Gamma as Gamma
from muster.compat.v1.distributions import Laplace as Laplace
from muster.compat.v1.distributions import Normal as Normal
from muster.compat.v1.distributions import RegisterKL as RegisterKL
from muster.compat.v1.distributions import (
    ReparameterizationType as ReparameterizationType,
)
from muster.compat.v1.distributions import StudentT as StudentT
from muster.compat.v1.distributions import Uniform as Uniform
from muster.compat.v1.distributions import kl_divergence as kl_divergence
