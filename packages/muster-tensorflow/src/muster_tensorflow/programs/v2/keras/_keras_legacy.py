"""Pass on what Keras 3 keeps of Keras 2: ``Tokenizer``, ``ImageDataGenerator`` and others.

Keras names them below ``keras._tf_keras``, which TensorFlow shows as ``tf.keras``, and nowhere in public.
They need NumPy, and some of them Pillow and SciPy, but no TensorFlow. Tried on keras 3.15.1.
"""

import importlib
from types import ModuleType

from muster import keras


def legacy_module(name: str, **others: object) -> ModuleType:
    """Return a module of ``tf.keras`` as TensorFlow shows it.

    Args:
        name: Its name below ``tf.keras``, such as ``preprocessing.text``.
        **others: What it has otherwise here.
    """
    found = importlib.import_module(f"{keras.__name__}._tf_keras.keras.{name}")
    # Another module, since names that are missing raise errors of their own in those that programs see.
    made = ModuleType(found.__name__, found.__doc__)
    vars(made).update(vars(found), **others)
    return made
