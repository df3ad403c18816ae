"""Say as JSON what ``import muster_tensorflow`` changes in others' packages, and what stays when undone."""

import importlib
import importlib.util
import json
import os
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"

from fingerprints import differences, fingerprint, is_registration, load, load_imports

PACKAGES = ("jax", "jaxlib", "keras", "numpy", "muster")
# The front end that is installed.
SEAMS = {("_frontend", "_installed")}


def changed(before, after):
    """What differs, but for seams and registrations: (what has it, its name, where this is)."""
    found = {}
    for old, new in differences(before, after):
        entry = old or new
        if (entry.path.rpartition(".")[2], entry.name) not in SEAMS and not is_registration(old, new):
            found[id(entry.owner), entry.name] = f"{entry.path}: {entry.name!r}"
    return found


load("muster")
source = Path(importlib.util.find_spec("muster_tensorflow").origin).parent
load_imports(source, PACKAGES)
before = fingerprint(*PACKAGES)

patches = importlib.import_module("muster_tensorflow.patches")

first = fingerprint(*PACKAGES)
parts = {}
for change in patches.applied():
    of_part = parts.setdefault(change.part, {"adds": {}, "changes": {}})
    name = repr(change.name) if isinstance(change.owner, dict) else change.name
    of_part["adds" if change.adds else "changes"].setdefault(change.path, []).append(name)
named = {(id(change.owner), change.name) for change in patches.applied()}
changed_first = changed(before, first)
patches.undo()
undone = changed(before, fingerprint(*PACKAGES))
patches.apply()
changed_again = changed(before, fingerprint(*PACKAGES))
print(
    json.dumps(
        {
            "parts": parts,
            "unnamed": sorted(text for key, text in changed_first.items() if key not in named),
            "undone": sorted(undone.values()),
            "once": sorted(changed_first.values()),
            "again": sorted(changed_again.values()),
        }
    )
)
