"""``tf.keras.optimizers.legacy``: the optimizers of Keras before TensorFlow 2.11."""

from muster import keras as _keras
from muster.optimizers import SGD as SGD
from muster.optimizers import Adadelta as Adadelta
from muster.optimizers import Adagrad as Adagrad
from muster.optimizers import Adam as Adam
from muster.optimizers import Adamax as Adamax
from muster.optimizers import Ftrl as Ftrl
from muster.optimizers import Nadam as Nadam
from muster.optimizers import RMSprop as RMSprop

Optimizer = _keras.optimizers.Optimizer
