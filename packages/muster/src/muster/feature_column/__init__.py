"""Feature columns, which turn a batch of features into the float32 input of a canned Estimator's model.

What needs the host, such as looking up and hashing text, `transform_features` does in the input pipeline. The
rest, such as embeddings, is computed in steps.

Names are imported when they are first used: what the host does of a saved model needs no Keras.
``__init__.pyi`` lists them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
