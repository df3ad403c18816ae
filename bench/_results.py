"""Write results to ``bench/results/NAME.json``, with the machine, the versions and the date."""

import datetime
import importlib.metadata
import json
import os
import platform
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    """Describe the machine; a high ``load_average`` shows that other programs disturbed a measurement."""
    names = {
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    }
    return {
        "processor": ", ".join(sorted(names)) or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 2),
    }


def version(package: str) -> str | None:
    """Return the version of a package, or None if it is not installed, as where its sources are imported."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def write(name: str, figures: dict[str, Any], folder: Path = RESULTS) -> Path:
    """Write figures to ``folder/NAME.json``, replacing an earlier run's, and return the path.

    Args:
        name: The name of the measurement.
        figures: Values that JSON can hold.
        folder: The folder, which is created if it does not exist.
    """
    return write_to(folder / f"{name}.json", name, figures)


def write_to(path: Path, name: str, figures: dict[str, Any]) -> Path:
    """Write figures to a file, replacing an earlier run's, and return its path; see `write`."""
    packages = ("muster-train", "jax", "keras", "numpy")
    record = {
        "name": name,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": {package: version(package) for package in packages},
        **figures,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path
