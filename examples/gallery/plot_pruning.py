r"""
A prior that prunes
===================

Thirty inputs, five of which matter (Friedman's function). :class:`~likely.priors.LaplacePrior` with
a scale per weight is added to the loss of a small network. Useful weights increase their scale and
are hardly shrunk; the others go to zero. There is no strength to choose.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import make_friedman1
from torch import nn

from likely.priors import LaplacePrior

X, y = make_friedman1(1000, 30, noise=1, random_state=0)
inputs = torch.as_tensor(X - 0.5, dtype=torch.float32) * 12**0.5
target = torch.as_tensor((y - y.mean()) / y.std(), dtype=torch.float32)[:, None]
train, test = slice(0, 500), slice(500, None)


# %%
# ``prior()`` is in nats for the whole training set; ``prune_`` sets negligible weights to zero.


def learn(pruned, steps=800):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(30, 24), nn.ReLU(), nn.Linear(24, 1))
    prior = LaplacePrior(model, per="element", n=500)
    optimizer = torch.optim.Adam([*model.parameters(), *prior.parameters()], lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs[train]), target[train])
        (loss + prior() / 500 if pruned else loss).backward()
        optimizer.step()
        schedule.step()
    share = prior.prune_() if pruned else 0.0
    error = nn.functional.mse_loss(model(inputs[test]), target[test]).item()
    return model[0].weight.detach().abs(), share, error


# %%
# The first layer, input by input. The network uses only the inputs that matter, and has a lower error
# on new rows.

fig, axes = plt.subplots(2, 1, figsize=(7.4, 5.2), layout="constrained", sharex=True)
for ax, pruned, name in zip(axes, (False, True), ("No prior", "With it"), strict=True):
    weights, share, error = learn(pruned)
    order = weights[:, :5].sum(1).argsort(descending=True)
    shown = ax.imshow(weights[order].numpy(), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    ax.axvline(4.5, color="C1", linewidth=1.5)
    ax.set_title(f"{name}: test error {error:.2f}, {share:.0%} of weights are zero")
    ax.set(ylabel="hidden unit", yticks=[])
axes[1].set_xlabel("input (the five left of the line matter)")
axes[1].set_xticks([0, 4, 9, 14, 19, 24, 29], ["1", "5", "10", "15", "20", "25", "30"])
fig.colorbar(shown, ax=axes, label="|weight|", aspect=30)
plt.show()
