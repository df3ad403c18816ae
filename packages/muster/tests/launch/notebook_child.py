"""A program that starts a job as a notebook does, and says how it ends."""

import time
from pathlib import Path

from muster.launch import notebook_launcher


def wait_for_ever(folder):
    Path(folder, "running").touch()
    time.sleep(600)


if __name__ == "__main__":
    import sys

    try:
        notebook_launcher(wait_for_ever, (sys.argv[1],), workers=1)
    except KeyboardInterrupt:
        print("interrupted")
