"""Train the guide's CNN by an Estimator on the card, beside a parameter server on the same machine."""

import math

from bench._gpu._part import this_part
from bench._gpu._tasks import run_tasks

if __name__ == "__main__":
    part = this_part()
    reports = run_tasks(part, "served_task", ["chief 0", "ps 0"], [part.size, part.folder / "served"])
    part.note(**{name.split()[0]: report for name, report in reports.items()})
    if "chief 0" in reports:
        losses = reports["chief 0"]["losses"]
        if not all(map(math.isfinite, losses)):
            part.fail(f"The losses are {losses}.")
    part.end()
