"""Make docs/patches.md of the manifest: ``PYTHONPATH=../muster/tests python tests/patches_page.py``."""

import muster.keras_hooks
from muster_tensorflow.patches import manifest
from repository import ROOT

PAGE = ROOT / "docs" / "patches.md"

_BEGIN = """\
# What is patched

Programs for TensorFlow get their arrays from JAX, and their layers, models and optimizers from Keras, or
derive from Keras' classes. So `import muster_tensorflow` changes these classes themselves: it adds
TensorFlow's methods, and lets Keras 3 do what Keras 2 did. `import muster` does none of this. A program that
imports `muster` alone sees JAX and Keras as they are, but for
[the hooks of the core](#the-hooks-of-the-core).

```py
from muster_tensorflow import patches

for change in patches.applied():
    print(change.part, change.path, change.name)
patches.undo()  # JAX, Keras and NumPy are as they were; TensorFlow's names no longer work as promised
patches.apply()
```

All changes are in one manifest, `muster_tensorflow/patches/manifest.toml`, in the order in which they are
made: each part with the attributes that it adds or changes, the versions that it was tried on, and the
modules of tests that fail without it. Nothing else can change anything: `patches.change` refuses it outside
of a part.

Two things stay after `undo`: classes that muster has registered with JAX as containers of arrays, and with
Keras by their names for saved models. They are muster's own, and JAX cannot forget them.

`python packages/muster-tensorflow/tests/check_needed_patches.py` runs the tests of each part without it. If
they pass, a new version of JAX or Keras no longer needs the part.

## The parts

| part | why | tried on | tests |
|---|---|---|---|
"""

_END = """
## The hooks of the core

`muster.keras_hooks.HOOKS` names what `import muster` and its packages change in Keras, each with its reason;
a test of the core compares Keras with it. `muster.keras_hooks.uninstall()` undoes what is changed for good,
`install()` sets it again. A model that no strategy runs trains as without muster, bit for bit. Tried on
{tried}; tests are in `packages/muster/tests`.

| when | what | why | test |
|---|---|---|---|
"""


def page() -> str:
    """The text of the page."""
    parts = [
        f"| `{part.name}` | {_text(part.why)} | {', '.join(part.tried) or 'muster'} | {_tests(part)} |\n"
        for part in manifest()
    ]
    hooks = [
        f"| {hook.when} | {_attributes(hook)} | {_text(hook.why)} | `{hook.test}` |\n"
        for hook in muster.keras_hooks.HOOKS
    ]
    tried = " and ".join(f"{name} {version}" for name, version in muster.keras_hooks.TRIED.items())
    return "".join([_BEGIN, *parts, _END.format(tried=tried), *hooks])


def _attributes(hook):
    kind = hook.owner.rpartition(".")[2]
    names = hook.names if len(hook.names) < 6 else (hook.names[0], "…", hook.names[-1])
    return ", ".join(name if name == "…" else f"`{kind}.{name}`" for name in names)


def _tests(part):
    return ", ".join(f"`{test}`" for test in part.tests)


def _text(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
