"""The core's helpers for tests of strategies are found by those here, and by processes that they start."""

import os
import sys

from repository import CORE

_HELPERS = CORE / "tests" / "distribute"
_FOLDERS = [str(_HELPERS), *(str(_HELPERS / name) for name in ("coordinator", "servers", "strategies"))]

sys.path.extend(_FOLDERS)
os.environ["PYTHONPATH"] = os.pathsep.join([*_FOLDERS, *filter(None, [os.environ.get("PYTHONPATH")])])
