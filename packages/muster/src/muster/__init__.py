"""muster trains one Keras 3 model on many devices, processes and machines, on JAX.

It has the names and the meaning of TensorFlow's tf.distribute and tf.estimator. Names are imported when
they are first used, so that ``import muster`` is quick and claims no device; ``__init__.pyi`` lists them.
Keras, when it is imported later, takes JAX, unless the variable KERAS_BACKEND names another backend: to
set that is all that the import does.
"""

import pathlib
from typing import Any

import lazy_loader

from muster.lifecycle import choose_jax

choose_jax()  # where KERAS_BACKEND is unset; see there why this cannot wait

_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _attribute(name)
    except AttributeError:
        # Packages are read, not imported: that of a part of the library may be on its way.
        for stub in sorted(pathlib.Path(__file__).parent.glob("[a-z]*/__init__.py*")):
            text = stub.read_text(encoding="utf-8")
            if f" as {name}\n" in text or f" as {name},\n" in text:
                where = f"{__name__}.{stub.parent.name}"
                raise AttributeError(f"{__name__} has no {name!r}: {where} has it.") from None
        raise AttributeError(f"{__name__} has no attribute {name!r}.") from None
