"""Run all measurements, each in a new process: ``python -m bench [NAME ...]``."""

import argparse
import subprocess
import sys
from pathlib import Path

MEASUREMENTS = sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure muster.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which of: {', '.join(MEASUREMENTS)}")
    names = parser.parse_args().names
    for name in names:
        if name not in MEASUREMENTS:
            parser.error(f"There is no measurement {name!r}. There are: {', '.join(MEASUREMENTS)}.")
    failed = []
    for name in names or MEASUREMENTS:
        print(f"\n## {name}\n", flush=True)
        if subprocess.run([sys.executable, "-m", f"bench.{name}"]).returncode:
            failed.append(name)
    if failed:
        print(f"\nThese failed: {', '.join(failed)}.", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
