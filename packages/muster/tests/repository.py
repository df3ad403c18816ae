"""Where the parts of the repository lie."""

from pathlib import Path

ROOT = Path(__file__).parents[3]
CORE = ROOT / "packages" / "muster"
FRONT_END = ROOT / "packages" / "muster-tensorflow"
SOURCES = (CORE / "src", FRONT_END / "src")
TESTS = (CORE / "tests", FRONT_END / "tests", ROOT / "tests")
EXAMPLES = ROOT / "examples"
