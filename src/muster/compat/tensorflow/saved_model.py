"""``tf.saved_model``: the name of the signature that a model is served by."""

from types import SimpleNamespace

DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default"
signature_constants = SimpleNamespace(DEFAULT_SERVING_SIGNATURE_DEF_KEY=DEFAULT_SERVING_SIGNATURE_DEF_KEY)
