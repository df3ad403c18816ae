"""``tf.config``."""

from muster.config import functions_run_eagerly as functions_run_eagerly
from muster.config import run_functions_eagerly as run_functions_eagerly
