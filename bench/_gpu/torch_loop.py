"""Train a net of ``bench.gpu`` in a PyTorch loop, as a contestant of ``bench.peers``.

Arguments: the net, ``full`` or ``small``, the number of steps in a turn, and the device. It is eager PyTorch:
a fused optimizer, autocast to bfloat16 but for the CNN, images with channels last. The CNN's batches come
from pinned memory, the others' one batch stays on the device.
"""

import contextlib
import itertools
import json
import os
import sys
import time

import torch
from bench._gpu.nets import net

net_name, size, turn, device = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
# What the libraries print goes to stderr.
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

chosen = net(net_name, size)
on_cuda = device == "cuda"
torch.backends.cudnn.benchmark = True
# As JAX does by default.
torch.set_float32_matmul_precision("high")


def load(layer, kernel):
    """Keep PyTorch's own initial values: the work is the same."""
    return layer


def as_tensor(array):
    tensor = torch.tensor(array)
    return tensor.permute(0, 3, 1, 2) if tensor.ndim == 4 else tensor.long()


def batches():
    inputs, labels = map(as_tensor, chosen.data())
    if net_name != "cnn":
        return itertools.repeat((inputs.to(device), labels.to(device)))
    pairs = list(zip(inputs.split(chosen.batch), labels.split(chosen.batch), strict=True))
    if on_cuda:
        pairs = [(one.pin_memory(), other.pin_memory()) for one, other in pairs]
    return itertools.cycle(pairs)


def train(count):
    for inputs, labels in itertools.islice(endless, count):
        inputs, labels = inputs.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with contextlib.nullcontext() if net_name == "cnn" else torch.autocast(device, torch.bfloat16):
            logits = model(inputs)
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, -2), labels.flatten())
        loss.backward()
        optimizer.step()
    return loss.item()


model = chosen.torch_model(torch, load).to(device)
if net_name != "transformer":
    model = model.to(memory_format=torch.channels_last)
optimizer = chosen.torch_optimizer(torch, model.parameters(), fused=on_cuda)
endless = batches()
losses = [train(1) for _ in range(2)]
versions = {
    "torch": torch.__version__,
    "device": torch.cuda.get_device_name() if on_cuda else "cpu",
    "weights": sum(each.numel() for each in model.parameters()),
}
print(json.dumps({"losses": losses, "versions": versions}), file=answers)
while sys.stdin.readline():
    began = time.perf_counter()
    train(turn)
    print(json.dumps({"seconds": time.perf_counter() - began}), file=answers)
