"""Whether a program knows, while it ends, that its exit code will be 0."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

_PROGRAM = """
import atexit, signal, sys, threading
from muster import lifecycle
from muster.lifecycle import PROGRAM_END

lifecycle.install()
atexit.register(lambda: print(PROGRAM_END.is_good()))

def main():
    PROGRAM_END.watch()
    PROGRAM_END.watch()
    {}

main()
if "never" == "always":
    print()
"""


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ("pass", 0),
        ("sys.exit()", 0),
        ("sys.exit(0)", 0),
        ("sys.exit(1)", 1),
        ("sys.exit('no data')", 1),
        ("sys.exit(3)", 3),
        ("raise SystemExit", 0),
        ("raise ValueError(1)", 1),
        ("raise KeyboardInterrupt", -2),
        ("atexit.register(signal.raise_signal, signal.SIGINT)", -2),
        ("threading.Thread(target=sys.exit, args=(0,)).start(); sys.exit(4)", 4),
    ],
)
@pytest.mark.parametrize("as_module", [False, True])
def test_it_is_known_whether_the_exit_code_will_be_0(tmp_path, ends, code, as_module):
    (tmp_path / "program.py").write_text(_PROGRAM.format(ends))
    done = subprocess.run(
        [sys.executable, *(["-m", "program"] if as_module else ["program.py"])],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code
    assert done.stdout.split() == [str(code == 0)]


def test_an_exit_that_was_caught_says_nothing(tmp_path):
    caught = "\n    try:\n        sys.exit(2)\n    except SystemExit:\n        pass"
    (tmp_path / "program.py").write_text(_PROGRAM.format(caught))
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout.split()) == (0, ["True"])
