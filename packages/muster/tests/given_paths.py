"""What functions make at a path that they are given; for tests that all of them take ``file://``."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

URL = "oss://bucket/run"  # no test installs what this needs


def made_by(call: Callable[[Any], Any], folder: str, name: str) -> list[str]:
    """Return the files that a call makes of a name in a folder, which may be a URL, without random parts."""
    place = Path(folder.removeprefix("file://"))
    place.mkdir()
    call(f"{folder}/{name}")
    names = (str(path.relative_to(place)) for path in place.rglob("*"))
    # Apart from when, by whom, and at random.
    return sorted(re.sub(r"tfevents.*|plugins.*|-[0-9a-f]{8}", "", name) for name in names)
