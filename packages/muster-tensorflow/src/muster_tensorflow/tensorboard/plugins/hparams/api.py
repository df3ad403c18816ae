"""``tensorboard.plugins.hparams.api``, which programs import as ``hp``."""

from muster.distribute import HParamsCallback as KerasCallback
from muster.summary import Discrete as Discrete
from muster.summary import HParam as HParam
from muster.summary import IntInterval as IntInterval
from muster.summary import Metric as Metric
from muster.summary import RealInterval as RealInterval
from muster.summary import hparams as hparams
from muster.summary import hparams_config as hparams_config
