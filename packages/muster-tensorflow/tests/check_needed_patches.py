"""Check that every patch is needed: run its tests without it, and say which ones pass all the same.

To be run after a new version of JAX or Keras: ``python tests/check_needed_patches.py [part ...]``. A part
whose tests pass without it is one that nobody needs any more, or that lacks a test.
"""

import os
import subprocess
import sys
from pathlib import Path

from muster_tensorflow.patches import manifest

TESTS = Path(__file__).parent
ALL_PASSED, SOME_FAILED = 0, 1


def outcome(part: str, test: str) -> int:
    """Return pytest's exit code for a part's tests without it, after the first that fails."""
    given = ["-q", "-x", "-p", "without_patches", f"--without-patch={part}", "--no-header", str(TESTS / test)]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run([sys.executable, "-m", "pytest", *given], env=environment, capture_output=True)
    return done.returncode


def main() -> None:
    """Check the parts that the arguments name; all without any."""
    wrong = 0
    for part in manifest():
        if not sys.argv[1:] or part.name in sys.argv[1:]:
            for test in part.tests:
                code = outcome(part.name, test)
                says = {ALL_PASSED: "NOT NEEDED?", SOME_FAILED: "needed"}.get(code, f"pytest failed: {code}")
                print(f"{says}: {part.name}, by {test}", flush=True)
                wrong += code != SOME_FAILED
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
