"""Train a case in a PyTorch loop.

With ``--profile`` after the case and the steps, print how long PyTorch's operations take in a step instead.
"""

import itertools
import sys

import torch
from bench._peers._turns import CHECK_STEPS, case, ready, serve, steps


def load(layer, kernel):
    """Give a layer Keras' initial kernel and no bias."""
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(kernel.transpose((3, 2, 0, 1) if kernel.ndim == 4 else (1, 0))))
        if layer.bias is not None:
            layer.bias.zero_()
    return layer


def as_tensor(array):
    """Convert to a tensor; images get channels first in shape but keep them last in memory, for speed."""
    tensor = torch.tensor(array)
    if tensor.ndim == 4:
        return tensor.permute(0, 3, 1, 2)
    return tensor if tensor.is_floating_point() else tensor.long()


def batches():
    features, labels = case.data(CHECK_STEPS)
    named = features if isinstance(features, dict) else {"": features}
    columns = [as_tensor(array).split(case.BATCH) for array in (*named.values(), labels)]
    for *inputs, wanted in zip(*columns, strict=True):
        yield dict(zip(named, inputs, strict=True)) if isinstance(features, dict) else inputs[0], wanted


def train(count):
    for features, labels in itertools.islice(endless, count):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(features), labels)
        loss.backward()
        optimizer.step()
    return loss.item()


model = case.torch_model(torch, load).to(memory_format=torch.channels_last)
loss_of = torch.nn.CrossEntropyLoss()
tables = [m.weight for m in model.modules() if isinstance(m, torch.nn.Embedding)]
others = [p for p in model.parameters() if p.requires_grad and all(p is not table for table in tables)]
groups = [{"params": others, "fused": True}, {"params": tables, "fused": False}]
optimizer = torch.optim.SGD([group for group in groups if group["params"]], case.LEARNING_RATE)
endless = itertools.cycle(list(batches()))
if "--profile" in sys.argv:
    train(CHECK_STEPS)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        train(steps)
    print("| operation | ms a step | calls |\n|---|---|---|", file=sys.stderr)
    for event in sorted(profile.key_averages(), key=lambda event: -event.self_cpu_time_total)[:25]:
        took, calls = event.self_cpu_time_total / 1e3 / steps, event.count / steps
        print(f"| `{event.key}` | {took:.2f} | {calls:.0f} |", file=sys.stderr)
else:
    ready([train(1) for _ in range(CHECK_STEPS)], "torch")
    serve(lambda: train(steps))
