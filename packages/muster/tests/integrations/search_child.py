"""A worker of a search: the program of test_searches_multiprocess.py."""

import json
import sys
from pathlib import Path

import numpy as np

from muster import distribute, integrations, keras

options = json.loads(sys.argv[1])
folder = Path(options["folder"])
strategy = distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(0)
X = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


def built(rate):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(rate), "mse")
    return model


def by_optuna():
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    rates = []

    def objective(trial):
        keras.utils.set_random_seed(0)
        rates.append(trial.suggest_float("rate", 1e-4, 0.3, log=True))
        with strategy.scope():
            model = built(rates[-1])
        prunes = [trial.pruning_callback("val_loss")]
        fitted = model.fit(X, Y, batch_size=16, epochs=3, verbose=0, validation_data=(X, Y), callbacks=prunes)
        return fitted.history["val_loss"][-1]

    study = None
    if strategy.workers.is_chief:
        # The second trial and those after it are pruned where they are behind the best one.
        pruner = optuna.pruners.MedianPruner(n_startup_trials=1, n_warmup_steps=0)
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=3), pruner=pruner)
    integrations.optimize(study, objective, 4, strategy=strategy)
    found = {"rates": rates}
    if study is not None:
        found["states"] = [each.state.name for each in study.trials]
        found["best"] = study.best_params["rate"]
    return found


def by_keras_tuner():
    import keras_tuner

    rates = []

    def build(hp):
        keras.utils.set_random_seed(0)
        rate = hp.Float("rate", 1e-4, 0.3, sampling="log")
        rates.append(rate)
        return built(rate)

    tuner = integrations.shared_tuner(
        keras_tuner.RandomSearch,
        build,
        objective="val_loss",
        max_trials=4,
        seed=3,
        directory=str(folder / "search"),
        project_name="four",
        strategy=strategy,
    )
    tuner.search(X, Y, batch_size=16, epochs=2, validation_data=(X, Y), verbose=0)
    (model,) = tuner.get_best_models(1)
    with strategy.scope():
        best = model.evaluate(X, Y, verbose=0)
    scores = [each.score for each in tuner.oracle.get_best_trials(4)]
    return {"rates": rates, "scores": scores, "best": best, "directory": str(tuner.project_dir)}


found = {"optuna": by_optuna, "keras_tuner": by_keras_tuner}[options["scenario"]]()
(folder / f"report-{strategy.workers.rank}").write_text(json.dumps(found, default=float))
