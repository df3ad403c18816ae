"""One task of a job that trains and evaluates, and tells what was called in it.

Run by test_roles_multiprocess.py. Argument: JSON: model_dir, told (a file for what it tells), max_steps,
epochs (without it, the data of training has no end), eval_strategy (whether the strategy is that of
evaluations, too), and exports (whether models are exported).
"""

import json
import logging
import sys

import numpy as np
from linear import FEATURES, LABELS, model_fn

from muster.data import Dataset, Placeholder
from muster.distribute import MultiWorkerMirroredStrategy
from muster.estimator import (
    BestExporter,
    CheckpointSaverListener,
    Estimator,
    EvalSpec,
    Exporter,
    FinalExporter,
    ModeKeys,
    PredictOutput,
    RunConfig,
    SessionRunHook,
    TensorServingInputReceiver,
    TrainSpec,
    train_and_evaluate,
)


class Told:
    """What was called, as lines of JSON."""

    def __init__(self, path):
        self.path = path

    def __call__(self, *what):
        with open(self.path, "a") as file:
            file.write(json.dumps(what) + "\n")


class Hook(SessionRunHook):
    def __init__(self, told, name):
        self.told, self.name = told, name

    def begin(self):
        self.told(self.name, "begin")

    def after_create_session(self, session, coord):
        self.told(self.name, "created at", session.global_step)

    def end(self, session):
        self.told(self.name, "end at", session.global_step)


class Listener(CheckpointSaverListener):
    def __init__(self, told):
        self.told = told

    def begin(self):
        self.told("listener", "begin")

    def before_save(self, session, global_step_value):
        self.told("listener", "before", global_step_value)

    def after_save(self, session, global_step_value):
        self.told("listener", "after", global_step_value)

    def end(self, session, global_step_value):
        self.told("listener", "end at", global_step_value)


class TellingExporter(Exporter):
    def __init__(self, told):
        self.told = told

    @property
    def name(self):
        return "telling"

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        self.told("export", int(eval_result["global_step"]), is_the_final_export)


def serving_input_receiver_fn():
    x = Placeholder(np.float32, (None, 2))
    return TensorServingInputReceiver(x, x)


def main(options):
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    told = Told(options["told"])
    strategy = MultiWorkerMirroredStrategy()

    def input_fn(mode, input_context):
        told("input", mode, *vars(input_context).values())
        data = Dataset.from_tensor_slices((FEATURES, LABELS))
        data = data.shard(input_context.num_input_pipelines, input_context.input_pipeline_id).batch(8)
        return data.repeat(options.get("epochs")) if mode == ModeKeys.TRAIN else data

    def model(features, labels, mode):
        spec = model_fn(features, labels, mode)
        if mode == ModeKeys.PREDICT:
            return spec._replace(export_outputs={"serving_default": PredictOutput(spec.predictions)})
        if mode != ModeKeys.TRAIN:
            return spec
        return spec._replace(
            training_hooks=[Hook(told, "model's hook")],
            training_chief_hooks=[Hook(told, "model's hook of the chief")],
        )

    estimator = Estimator(
        model,
        options["model_dir"],
        RunConfig(
            tf_random_seed=1,
            save_checkpoints_steps=2,
            save_summary_steps=1,
            train_distribute=strategy,
            eval_distribute=strategy if options.get("eval_strategy") else None,
        ),
    )
    exporters = [
        TellingExporter(told),
        BestExporter("best", serving_input_receiver_fn, exports_to_keep=1),
        FinalExporter("final", serving_input_receiver_fn),
    ]
    result = train_and_evaluate(
        estimator,
        TrainSpec(
            input_fn, options["max_steps"], hooks=[Hook(told, "hook")], saving_listeners=[Listener(told)]
        ),
        EvalSpec(
            input_fn,
            steps=None,
            hooks=[Hook(told, "eval hook")],
            exporters=exporters if options.get("exports") else None,
            start_delay_secs=0,
            throttle_secs=0,
        ),
    )
    told("result", result)
    weights = estimator.get_variable_value("w")
    told("weights", np.asarray(weights).reshape(-1).tolist())


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
