"""Say how names differ from TensorFlow's: the table of the reference page, and the lines of ``muster port``.

``names.json`` has a row for each name or group of names: TensorFlow's, muster's, and the difference, in
Markdown.
"""

import json
import re
from importlib import resources

_NAMES = re.compile(r"`tf\.[\w.]+`(?:, `[\w.]+`)*")
# Where a row compares with Keras, the name itself is as in TensorFlow.
_OF_KERAS = re.compile(r"`tf\.compat\.v1\.(train\.\w+Optimizer|metrics\.)")


def rows() -> list[tuple[str, str, str]]:
    """Return the rows of the table: TensorFlow's names, muster's, and how they differ, in Markdown."""
    text = resources.files(__package__).joinpath("names.json").read_text("utf-8")
    return [(names, ours, differs) for names, ours, differs in json.loads(text)]


def _differences() -> dict[str, str]:
    """Return name -> difference, without markup.

    Names are without ``compat.v1``; the line for a module or class is for what is in it, too.
    """
    found = {}
    for names, _, differs in rows():
        is_own = differs and not differs.startswith(("likewise", "also"))
        if is_own and _NAMES.fullmatch(names) and not _OF_KERAS.match(names):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", differs).replace("`", "").rstrip(".")
            for name in re.findall(r"`(tf\.[\w.]+)`", names):
                found[name.replace("tf.compat.v1.", "tf.")] = plain
    return found


DIFFERENCES = _differences()
