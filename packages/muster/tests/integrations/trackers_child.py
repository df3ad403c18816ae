"""A worker whose job is tracked: the program of test_trackers_multiprocess.py."""

import json
import os
import sys
from pathlib import Path

import numpy as np

options = json.loads(sys.argv[1])
folder = Path(options["folder"])
os.environ |= {"MLFLOW_ALLOW_FILE_STORE": "true", "WANDB_MODE": "offline", "WANDB_SILENT": "true"}

from muster import distribute, integrations, keras  # noqa: E402  # after what they read

strategy = distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(0)
x = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
places = {"params": {"units": 1}, "folder": folder / "job"}
with (
    integrations.MLflow("four", tracking_uri=str(folder / "mlflow"), **places) as mlflow,
    integrations.WandB("four", dir=str(folder), **places) as wandb,
):
    callbacks = [mlflow.callback(), wandb.callback()]
    model.fit(x, x[:, 0], batch_size=16, epochs=2, verbose=0, callbacks=callbacks)
    runs = {"mlflow": mlflow.run, "wandb": wandb.run}
(folder / f"report-{strategy.workers.rank}").write_text(json.dumps(runs))
