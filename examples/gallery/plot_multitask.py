r"""
Two tasks, no weight to search
==============================

One network predicts a length in centimetres and a ratio. How should the small errors of the ratio be
weighted against the large errors of the length? Usually the weight is found by a search, with one
training per candidate. In :class:`~likely.MultiTaskLoss` each task has a scale that learns, and the
scales determine the weights.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import likely

torch.manual_seed(0)
x = torch.randn(600, 8)
length = 10 * torch.tanh(x @ torch.randn(8, 1)) + 5 * torch.randn(600, 1)
ratio = 0.2 * torch.sin(2 * x[:, :1]) + 0.2 * x[:, 1:2] * x[:, 2:3] + 0.05 * torch.randn(600, 1)
train, test = slice(0, 400), slice(400, None)

# %%
# Same network, same optimizer; only the scales of the two losses differ.


def explained(length_scale, ratio_scale, steps=350):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 2))
    scales = {"length": length_scale, "ratio": ratio_scale}
    losses = {name: likely.NormalLoss(scale=scale) for name, scale in scales.items()}
    loss_fn = likely.MultiTaskLoss(losses)
    optimizer = torch.optim.Adam(likely.param_groups(model, loss_fn, lr=0.03))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        predicted = model(x[train])
        predictions = {"length": predicted[:, :1], "ratio": predicted[:, 1:]}
        loss_fn(predictions, {"length": length[train], "ratio": ratio[train]}).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        truth = torch.cat([length, ratio], dim=1)[test]
        left = (model(x[test]) - truth).square().mean(0) / truth.var(0)
    weight = (losses["length"].scale.value / losses["ratio"].scale.value).square()
    return weight.item(), (1 - left).tolist()


fixed = [explained(1.0, 10**-power) for power in (-0.5, 0, 0.5, 1, 1.5, 2, 3, 4)]
weight, learned = explained(likely.Global(), likely.Global())

# %%
# With the learned weight, the errors of both tasks are low.

fig, ax = plt.subplots(figsize=(7.0, 4.8), layout="constrained")
weights, scores = zip(*fixed, strict=True)
for task, (name, colour, end) in enumerate((("length", "C0", 0), ("ratio", "C1", -2))):
    ax.plot(weights, [score[task] for score in scores], color=colour)
    ax.text(weights[end], scores[end][task] + 0.04, name, color=colour, size=15)
    ax.plot(weight, learned[task], "o", markersize=12, color=colour, markeredgecolor="white")
ax.axvline(weight, color="0.6", linewidth=1, linestyle=(0, (4, 3)), zorder=0)
ax.text(weight * 1.25, 0.02, "the weight\nthat was learned", color="0.3")
ax.set(xscale="log", ylim=(-0.1, 1), xlabel="weight of the ratio's squared error")
ax.set(ylabel="explained variance, new rows", title="One training finds the weight")
plt.show()
