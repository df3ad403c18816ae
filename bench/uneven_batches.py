"""Measure the memory of batches that eight replicas cannot share equally, beside that of batches they can."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench import _results

SCRIPT = Path(__file__).with_name("_uneven_batches_job.py")
DEVICES, EQUAL = 8, 15 * 2048


def measured(how: str, devices: int, rows: int) -> dict[str, Any]:
    """Return the peak memory in bytes and the metrics of a training."""
    command = [sys.executable, SCRIPT, how, str(devices), str(rows)]
    flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    done = subprocess.run(command, stdout=subprocess.PIPE, env=os.environ | flags, check=True, timeout=250)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> dict[str, Any]:
    """Print and return the figures by way to train."""
    figures = {}
    print("### 15 batches of 2,048 rows on eight virtual devices, and with one row less in the last\n")
    print("| | MB, equal | MB, uneven | ratio | loss | loss on one device |")
    print("|---" * 6 + "|")
    for how in ("fit", "Estimator"):
        equal, uneven = measured(how, DEVICES, EQUAL), measured(how, DEVICES, EQUAL - 1)
        alone = measured(how, 1, EQUAL - 1)
        figures[how] = {"equal": equal, "uneven": uneven, "one_device": alone}
        peaks = equal["peak"], uneven["peak"]
        losses = [each["metrics"]["loss"] for each in (uneven, alone)]
        print(
            f"| {how} | {' | '.join(f'{peak / 1e6:,.0f}' for peak in peaks)} | {peaks[1] / peaks[0]:.2f} | "
            f"{' | '.join(f'{loss:.6f}' for loss in losses)} |"
        )
    return figures


if __name__ == "__main__":
    _results.write("uneven_batches", main())
