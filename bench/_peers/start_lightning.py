"""Train the model of ``bench/_small_job.py`` by Lightning in two processes with DDP, for ``bench.start``.

Lightning starts the second process by itself. Arguments and the log are those of ``_small_job.py``.
"""

import json
import os
import sys
import time
from pathlib import Path

import lightning
import torch
from torch import nn

FOLDER, STEPS = Path(sys.argv[-2]), int(sys.argv[-1])
IMPORTED = time.time()


class Digits(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(1, 32, 3, padding="same"), nn.ReLU(), nn.BatchNorm2d(32), nn.MaxPool2d(2)),
            *(nn.Conv2d(32, 64, 3, padding="same"), nn.ReLU(), nn.BatchNorm2d(64)),
            *(nn.Flatten(), nn.Dropout(0.5), nn.Linear(1024, 10)),
        )

    def training_step(self, batch, index):
        images, labels = batch
        return nn.functional.cross_entropy(self.layers(images), labels)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


class Notes(lightning.Callback):
    """Log each step when it is done."""

    def __init__(self, path):
        self.path = path

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        note(self.path, index + 1)


def note(path, what, when=None):
    event = {"what": what, "when": when or time.time(), "pid": os.getpid(), "processor": time.process_time()}
    with path.open("a") as file:
        print(json.dumps(event), file=file)


def main():
    path = FOLDER / f"{os.environ.get('LOCAL_RANK', 0)}.json"
    note(path, "imported", IMPORTED)
    images = torch.rand(1437, 1, 8, 8)
    data = torch.utils.data.TensorDataset(images, torch.randint(10, (len(images),)))
    trainer = lightning.Trainer(
        accelerator="cpu",
        strategy="ddp",
        devices=2,
        max_steps=STEPS,
        callbacks=[Notes(path)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Digits(), torch.utils.data.DataLoader(data, 32, shuffle=True))


main()
