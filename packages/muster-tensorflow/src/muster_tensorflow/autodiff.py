"""``tf.autodiff``."""

from muster.program import ForwardAccumulator as ForwardAccumulator
from muster.program import GradientTape as GradientTape
