"""One worker of a job that trains models with steps of their own. Run by test_own_steps_multiprocess.py.

Argument: JSON: report, where to write what came of it; kind, the model; or backup, the folder of the
backups of a GAN, and dies, whether the second worker does.
"""

import json
import os
import signal
import sys
from pathlib import Path

from own_step_cases import BATCH, DIES_AFTER, EPOCHS, ROWS, Losses, X, all_values, compiled, keras, outcome

from muster.distribute import MultiWorkerMirroredStrategy


class Dies(keras.callbacks.Callback):
    """Kills this process after some step."""

    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.g_optimizer.iterations.value) == DIES_AFTER:
            os.kill(os.getpid(), signal.SIGKILL)


def backed_up(strategy, folder, dies):
    with strategy.scope():
        model = compiled("GAN")
    losses, made = Losses(), []
    callbacks = [
        losses,
        keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: made.append(batch)),
    ]
    if dies:
        callbacks.append(Dies())
    if folder:
        callbacks.append(keras.callbacks.BackupAndRestore(folder, save_freq=1, delete_checkpoint=False))
    model.fit(X[:ROWS], batch_size=BATCH, epochs=EPOCHS, verbose=0, callbacks=callbacks)
    weights = [each.tolist() for each in all_values(model)]
    return {"losses": losses.losses, "steps": len(made), "weights": weights}


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    strategy = MultiWorkerMirroredStrategy()
    if "kind" in options:
        report = outcome(strategy, options["kind"])
    else:
        dies = options["dies"] and strategy.input_context.input_pipeline_id == 1
        report = {"resumed": backed_up(strategy, options["backup"], dies)}
        report["left alone"] = backed_up(strategy, None, False)
    Path(options["report"]).write_text(json.dumps(report, default=float))
