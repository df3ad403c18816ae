"""Say as JSON what muster changes in JAX and Keras: when it is imported, in scopes, and under tapes."""

import importlib
import json
import os

os.environ["KERAS_BACKEND"] = "jax"

from fingerprints import differences, fingerprint, is_registration, load, load_imports
from repository import CORE

PACKAGES = ("jax", "jaxlib", "keras", "numpy")


def changed(before):
    """What is otherwise now, but for what muster has registered of its own."""
    pairs = differences(before, fingerprint(*PACKAGES))
    return sorted(
        (new or old).path + " " + str((new or old).name)
        for old, new in pairs
        if not is_registration(old, new)
    )


load_imports(CORE / "src", PACKAGES)
before = fingerprint(*PACKAGES)
load("muster")
told = {"always": changed(before)}

hooks = importlib.import_module("muster.program.variables._patches")

before = fingerprint(*PACKAGES)
with hooks.patched_keras():
    told["in scopes"] = changed(before)
hooks.WHILE_TAPES_ARE_OPEN.begin()
told["under tapes"] = changed(before)
hooks.WHILE_TAPES_ARE_OPEN.end()
told["afterwards"] = changed(before)
print(json.dumps(told))
