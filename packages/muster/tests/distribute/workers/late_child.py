"""A worker that trains, and may fail after that. Run by test_late_failures_multiprocess.py.

Argument: JSON: what bad_job_child.py takes, and later (``"raise"``, ``"kill"`` or ``"stay"``).
"""

import json
import os
import signal
import sys
import time

import bad_job_child

if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    bad_job_child.main(options)
    if "later" in options:
        time.sleep(1.5 if options["later"] != "stay" else 1000.0)  # the other worker has come to its end
        if options["later"] == "raise":
            raise LookupError("the export failed")
        os.kill(os.getpid(), signal.SIGKILL)
