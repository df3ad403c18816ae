"""Train with Ray Train: workers of PyTorch, checkpoints as its guide to fault tolerance saves them.

The number of workers may follow the arguments of ``job.py``: two, if it does not.
"""

import sys
import tempfile
from pathlib import Path

import ray.train
import torch
from job import Log, arguments
from job_torch import LOSS, loader, model_and_optimizer
from ray.train.torch import TorchTrainer

HERE = str(Path(__file__).parent)


def train(config):
    folder, steps, save_steps, pause_secs = config["arguments"]
    worker = ray.train.get_context().get_world_rank()
    model, optimizer = model_and_optimizer()
    step = 0
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as saved:
            state = torch.load(Path(saved, "saved.pt"))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    parallel = ray.train.torch.prepare_model(model)
    batches = ray.train.torch.prepare_data_loader(loader())
    log = Log(folder, worker, steps, pause_secs)
    while step < steps:
        for images, labels, numbers in batches:
            optimizer.zero_grad(set_to_none=True)
            LOSS(parallel(images), labels).backward()
            optimizer.step()
            step += 1
            if log.wants(step):
                log.note(step, numbers[0])
            if step % save_steps == 0:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
                with tempfile.TemporaryDirectory() as saved:
                    torch.save(state, Path(saved, "saved.pt"))
                    whole = ray.train.Checkpoint.from_directory(saved) if worker == 0 else None
                    ray.train.report({"step": step}, checkpoint=whole)
            if step == steps:
                break


if __name__ == "__main__":
    folder, *_ = told = arguments()
    workers = int(sys.argv[5]) if len(sys.argv) > 5 else 2
    # The workers share this machine's cores, however few, as those of the others do.
    ray.init(
        num_cpus=workers + 1,
        include_dashboard=False,
        runtime_env={"env_vars": {"PYTHONPATH": HERE}},
        log_to_driver=False,
    )
    TorchTrainer(
        train,
        train_loop_config={"arguments": told},
        scaling_config=ray.train.ScalingConfig(num_workers=workers),
        run_config=ray.train.RunConfig(
            name="job",
            storage_path=str(folder / "storage"),
            failure_config=ray.train.FailureConfig(max_failures=3),
        ),
    ).fit()
