"""A coordinator that calls fit, and kills itself once. Run by test_coordinated_fit_multiprocess.py.

Argument: JSON: backup, the folder of its backups; kills_at, the number of steps after which it kills itself,
unless it has before, and after so many backups, saves; and report, where to write what came of it.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), *map(str, Path(__file__).parents[1:3])]

from coordinated import counting  # noqa: E402
from fit_cases import X, Y  # noqa: E402

from muster._keras import keras  # noqa: E402
from muster.checkpoint import list_checkpoints  # noqa: E402
from muster.cluster import ClusterSpec, SimpleClusterResolver  # noqa: E402
from muster.distribute import ParameterServerStrategy  # noqa: E402

options = json.loads(sys.argv[1])
killed = Path(options["backup"]).with_suffix(".killed")


class Kills(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if not killed.exists() and int(self.model.optimizer.iterations.value) == options["kills_at"]:
            while not (saved := list_checkpoints(options["backup"])) or saved[-1].step < options["saves"]:
                time.sleep(0.01)  # it is written meanwhile
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)


cluster = ClusterSpec(json.loads(os.environ["TF_CONFIG"])["cluster"])
with ParameterServerStrategy(SimpleClusterResolver(cluster)).scope():
    model = counting()
backup = keras.callbacks.BackupAndRestore(options["backup"], save_freq=2)
history = model.fit(X, Y, batch_size=32, epochs=3, verbose=0, callbacks=[backup, Kills()]).history
weights = [each.tolist() for each in model.get_weights()]
steps = int(model.optimizer.iterations.value)
Path(options["report"]).write_text(json.dumps({"history": history, "weights": weights, "steps": steps}))
