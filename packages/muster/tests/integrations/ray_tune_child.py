"""Searches with Ray Tune and its scheduler ASHA: each trial trains in step on two workers of Ray Train.

Run by test_ray_train_multiprocess.py. Argument: JSON: storage (a folder). The second trial learns nothing, so
that it is stopped after its first epochs.
"""

import json
import sys

import numpy as np
import ray
import ray.train
from ray import tune
from ray.tune.integration.ray_train import TuneReportCallback

import muster.distribute
import muster.ray
from muster import keras

EPOCHS = 4


def train(config):
    strategy = muster.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        layers = [keras.layers.Input((4,)), keras.layers.Dense(1, kernel_initializer="zeros")]
        model = keras.Sequential(layers)
        model.compile(optimizer=keras.optimizers.SGD(config["rate"]), loss="mse")
    x = np.arange(32.0).reshape(8, 4).astype("float32") / 32
    report = muster.ray.ReportCallback(checkpoint_every=EPOCHS)
    model.fit(x, x.sum(axis=1), batch_size=4, epochs=EPOCHS, verbose=0, shuffle=False, callbacks=[report])


def trial(config):
    muster.ray.MusterTrainer(
        train,
        config,
        scaling_config=ray.train.ScalingConfig(num_workers=2),
        run_config=ray.train.RunConfig(
            name=f"rate-{config['rate']}", storage_path=config["storage"], callbacks=[TuneReportCallback()]
        ),
    ).fit()


def main(storage):
    # Without its dashboard Ray does not free the places of a trial that was stopped.
    ray.init(address="local", num_cpus=4, include_dashboard=True, object_store_memory=80 << 20)
    tuner = tune.Tuner(
        tune.with_resources(trial, {"cpu": 1}),
        param_space={"rate": tune.grid_search([0.1, 1e-6]), "storage": storage},
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            max_concurrent_trials=1,
            scheduler=tune.schedulers.ASHAScheduler(max_t=EPOCHS, grace_period=2, reduction_factor=2),
        ),
        run_config=tune.RunConfig(name="search", storage_path=storage),
    )
    results = tuner.fit()
    assert not results.errors, results.errors
    told = {str(each.config["rate"]): each.metrics["epoch"] for each in results}
    best = results.get_best_result()
    print("RESULT", json.dumps({"epochs": told, "best": best.config["rate"], "loss": best.metrics["loss"]}))
    ray.shutdown()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
