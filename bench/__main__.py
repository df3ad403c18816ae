"""Run all measurements, each in a new process: ``python -m bench [NAME ...]``."""

import argparse
import importlib
import os
import subprocess
import sys
from pathlib import Path

from muster.engines import this_machine

MEASUREMENTS = sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))
# Those that need a GPU are run without being named only where there is one.
NEED_GPU = ("gpu",)


def _has_options(name: str) -> bool:
    """Return whether a measurement knows ``--help`` itself."""
    return "argparse" in (Path(__file__).parent / f"{name}.py").read_text()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure muster.",
        epilog="gpu needs an NVIDIA card, and is left out of all where there is none; `gpu --rehearse` tries "
        "it on the CPU. One NAME may be followed by options of its own.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which of: {', '.join(MEASUREMENTS)}")
    # What follows a name's first option is that measurement's.
    given = sys.argv[1:]
    own = next((i for i, each in enumerate(given) if each.startswith("-") and i), len(given))
    names, options = parser.parse_args(given[:own]).names, given[own:]
    for name in names:
        if name not in MEASUREMENTS:
            parser.error(f"There is no measurement {name!r}. There are: {', '.join(MEASUREMENTS)}.")
    if options and len(names) != 1:
        parser.error(f"Options are for one measurement: {options} came after {names}.")
    if not names:
        without = () if this_machine(os.environ).gpus else NEED_GPU
        names = [name for name in MEASUREMENTS if name not in without]
        for name in without:
            print(f"{name} is left out: JAX has no NVIDIA card here.", flush=True)
    if {"-h", "--help"} & set(options) and not _has_options(names[0]):
        print(importlib.import_module(f"bench.{names[0]}").__doc__)
        return 0
    failed = []
    for name in names:
        print(f"\n## {name}\n", flush=True)
        if subprocess.run([sys.executable, "-m", f"bench.{name}", *options]).returncode:
            failed.append(name)
    if failed:
        print(f"\nThese failed: {', '.join(failed)}.", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
