"""Train as one of two workers of PyTorch: under torchrun and, if the last argument says so, with Accelerate.

What is saved is what each library's guide to fault tolerance saves: under torchrun the model, the optimizer
and the step; with Accelerate its own state, and ``skip_first_batches`` goes on in the data.
"""

import os
import sys

import torch
from job import BATCH, BATCHES, LEARNING_RATE, Log, arguments, data
from torch.utils.data import DataLoader, Dataset, DistributedSampler

nn = torch.nn
LOSS = nn.CrossEntropyLoss()


def model_and_optimizer():
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(5408, 64), nn.ReLU(), nn.Linear(64, 10),
    ).to(memory_format=torch.channels_last)  # fmt: skip
    return model, torch.optim.SGD(model.parameters(), LEARNING_RATE, fused=True)


class Examples(Dataset):
    """Tensors in memory, of which a batch is taken at once: one by one they would take most of the time."""

    def __init__(self):
        images, labels, numbers = (torch.tensor(array) for array in data())
        self._tensors = images.permute(0, 3, 1, 2), labels.long(), numbers

    def __len__(self):
        return len(self._tensors[0])

    def __getitems__(self, indices):
        return [tensor[indices] for tensor in self._tensors]


def loader(sampler=None):
    """Return batches of all examples, or of a sampler's."""
    return DataLoader(Examples(), BATCH, sampler=sampler, collate_fn=list)


def torchrun(folder, steps, save_steps, pause_secs):
    torch.distributed.init_process_group("gloo")
    worker = torch.distributed.get_rank()
    model, optimizer = model_and_optimizer()
    saved, step = folder / "saved.pt", 0
    if saved.exists():
        state = torch.load(saved)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    parallel = nn.parallel.DistributedDataParallel(model)
    log = Log(folder, worker, steps, pause_secs)
    batches = loader(DistributedSampler(range(2 * BATCH * BATCHES), shuffle=False))
    while step < steps:
        for images, labels, numbers in batches:
            optimizer.zero_grad(set_to_none=True)
            LOSS(parallel(images), labels).backward()
            optimizer.step()
            step += 1
            if log.wants(step):
                log.note(step, numbers[0])
            if step % save_steps == 0 and worker == 0:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
                torch.save(state, f"{saved}.new")
                os.replace(f"{saved}.new", saved)
            if step == steps:
                break
    torch.distributed.destroy_process_group()


def accelerate(folder, steps, save_steps, pause_secs):
    from accelerate import Accelerator
    from accelerate.utils import ProjectConfiguration

    project = ProjectConfiguration(str(folder), automatic_checkpoint_naming=True, total_limit=2)
    accelerator = Accelerator(cpu=True, project_config=project)
    model, optimizer = model_and_optimizer()
    model, optimizer, batches = accelerator.prepare(model, optimizer, loader())
    step = 0
    if found := sorted(folder.glob("checkpoints/checkpoint_*"), key=lambda path: int(path.name[11:])):
        accelerator.load_state(str(found[-1]))
        step = save_steps * (int(found[-1].name[11:]) + 1)
        project.iteration = int(found[-1].name[11:]) + 1
    log = Log(folder, accelerator.process_index, steps, pause_secs)
    while step < steps:
        rest = accelerator.skip_first_batches(batches, step % len(batches))
        for images, labels, numbers in rest:
            optimizer.zero_grad(set_to_none=True)
            accelerator.backward(LOSS(model(images), labels))
            optimizer.step()
            step += 1
            if log.wants(step):
                log.note(step, numbers[0])
            if step % save_steps == 0:
                accelerator.save_state()
            if step == steps:
                break
    accelerator.end_training()


if __name__ == "__main__":
    (accelerate if sys.argv[-1] == "accelerate" else torchrun)(*arguments())
