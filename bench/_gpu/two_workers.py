"""Let two processes of ``MultiWorkerMirroredStrategy`` train on one card.

On GPUs muster leaves the sums of gradients to XLA, which has NCCL make them, and NCCL may refuse two
processes on one card. The report says how they end, or that both found the same losses, and their steps a
second.
"""

from bench._gpu._part import this_part
from bench._gpu._tasks import run_tasks

if __name__ == "__main__":
    part = this_part()
    reports = run_tasks(part, "worker", ["worker 0", "worker 1"], [part.size])
    part.note(**{name.replace(" ", "_"): report for name, report in reports.items()})
    if len(reports) == 2:
        losses = [report["losses"] for report in reports.values()]
        if losses[0] != losses[1]:
            part.fail(f"The workers' losses, which are sums over both, differ: {losses}.")
    part.end()
