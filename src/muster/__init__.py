"""muster trains one Keras 3 model on many devices, processes and machines, on JAX.

It has the names and the meaning of TensorFlow's tf.distribute and tf.estimator. Names are imported when
they are first used, so that ``import muster`` is quick and claims no device; ``__init__.pyi`` lists them.
Keras, when it is imported later, takes JAX.
"""

import lazy_loader

from muster import _interrupts, _keras_backend

_interrupts.keep_interrupts()
_interrupts.calm_imports()
_keras_backend.choose_jax()  # see there why this cannot wait

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
