"""Follow a value through the files of muster, for tests of how many those are."""

import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import muster

ROOT = Path(muster.__file__).parent


def holds(value, is_it, depth=0):
    """Whether something is the value, or has it in it."""
    if is_it(value):
        return True
    if depth < 4 and isinstance(value, tuple | list):
        return any(holds(each, is_it, depth + 1) for each in value[:20])
    if depth < 4 and isinstance(value, dict):
        return any(holds(each, is_it, depth + 1) for each in [*value.values()][:20])
    return False


@contextmanager
def followed(is_it):
    """Yield a set that gets the modules, below the package, whose functions have a value in their hands.

    Also those of threads that begin meanwhile.
    """
    seen = set()

    def note(frame, event, returned):
        file = Path(frame.f_code.co_filename)
        if event == "return" and file.is_relative_to(ROOT):
            if holds([returned, *frame.f_locals.values()], is_it):
                seen.add(file.relative_to(ROOT).as_posix())

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield seen
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


def walk_of(beginning):
    """Return the list of docs/architecture.md after the line that begins so."""
    text = (ROOT.parents[3] / "docs/architecture.md").read_text()
    assert text.count(beginning) == 1
    return text.partition(beginning)[2].partition("\n\n")[2].partition("\n\n")[0]
