"""Train as one of two workers under PyTorch's DistributedDataParallel on Gloo, in its fastest format."""

import os
import time

import numpy as np
import torch
from two_workers import BATCH, CHECK_STEPS, LEARNING_RATE, STEPS, WORKER, data, kernel, report

nn = torch.nn
torch.set_num_threads(1)
conv, dense, head = nn.Conv2d(1, 32, 3), nn.Linear(5408, 64), nn.Linear(64, 10)
with torch.no_grad():
    conv.weight.copy_(torch.tensor(kernel((3, 3, 1, 32)).transpose(3, 2, 0, 1)))
    by_channel = kernel((5408, 64)).reshape(13, 13, 32, 64).transpose(2, 0, 1, 3)
    dense.weight.copy_(torch.tensor(np.ascontiguousarray(by_channel.reshape(5408, 64).T)))
    head.weight.copy_(torch.tensor(np.ascontiguousarray(kernel((64, 10)).T)))
    for layer in (conv, dense, head):
        layer.bias.zero_()
model = nn.Sequential(conv, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), dense, nn.ReLU(), head)
model = model.to(memory_format=torch.channels_last)
torch.distributed.init_process_group("gloo", init_method=os.environ["MEET_AT"], rank=WORKER, world_size=2)
model = nn.parallel.DistributedDataParallel(model)
optimizer, loss_of = torch.optim.SGD(model.parameters(), LEARNING_RATE, fused=True), nn.CrossEntropyLoss()
images, labels = (torch.tensor(array) for array in data())
images, labels = images.permute(0, 3, 1, 2), labels.long()
losses = []
for step in range(STEPS):
    at = step % CHECK_STEPS * BATCH
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of(model(images[at : at + BATCH]), labels[at : at + BATCH])
    loss.backward()
    optimizer.step()
    if step < CHECK_STEPS:
        losses.append(loss.item())
        began = time.perf_counter()
loss.item()
report(losses, time.perf_counter() - began)
torch.distributed.destroy_process_group()
