"""One task of a job, as TF_CONFIG says. Run by test_train_and_evaluate_multiprocess.py.

Arguments: the model directory, and the last step.
"""

import logging
import sys

from linear import dataset, estimator, train_input

from muster.estimator import EvalSpec, TrainSpec, train_and_evaluate


def main(model_dir, max_steps):
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    train_and_evaluate(
        estimator(model_dir, save_checkpoints_steps=100, keep_checkpoint_max=2),
        TrainSpec(train_input, max_steps=max_steps),
        EvalSpec(dataset, steps=None, start_delay_secs=0, throttle_secs=0),
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
