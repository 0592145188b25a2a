r"""
Guess the lower half
====================

A network sees the upper half of a digit and predicts the lower one, pixel by pixel, with a scale
per pixel. The scale is bright where the stroke could continue in several ways, and dark where
nobody ever writes.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

import likely

torch.manual_seed(0)
images, labels = (torch.as_tensor(part) for part in load_digits(return_X_y=True))
images = images.float() / 16
upper, lower = images[:, :32], images[:, 32:]
train, test = slice(0, 1500), slice(1500, None)

# %%
# ``Predicted(128, (32,))`` predicts a scale for each of the 32 pixels from the hidden layer. With
# β-NLL (``beta``) uncertain pixels keep enough weight to be learned.

first = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Dropout(0.3))
hidden = nn.Sequential(first, nn.Linear(128, 128), nn.ReLU())
model = nn.Sequential(hidden, nn.Linear(128, 32))
loss_fn = likely.NormalLoss(scale=likely.Predicted(128, (32,)), beta=0.5)
step = likely.Supervised(model, loss_fn, features="0")
groups = likely.param_groups(model, loss_fn, lr=0.002, weight_decay=0.1)
optimizer = torch.optim.AdamW(groups)
for _ in range(40):
    for rows in torch.randperm(1500).split(100):
        optimizer.zero_grad()
        step(upper[rows], lower[rows]).backward()
        optimizer.step()

# %%
# Digits that were not used in training.

step.eval()
picked = [int((labels[test] == digit).nonzero()[2]) for digit in (0, 2, 3, 5, 6, 7, 9)]
seen, truth = upper[test][picked], lower[test][picked]
with torch.no_grad():
    features = hidden(seen)
    guess, scale = model[1](features).clamp(0, 1), loss_fn.scale(features=features)

fig, axes = plt.subplots(3, 7, figsize=(7.2, 4.0), layout="constrained")
halves = {"truth": truth, "guess": guess, "scale": scale}
for line, (name, below) in zip(axes, halves.items(), strict=True):
    for ax, top, bottom in zip(line, seen, below, strict=True):
        cmap, most = ("inferno", 0.4) if name == "scale" else ("gray_r", 1)
        ax.imshow(top.reshape(4, 8).numpy(), cmap="gray_r", vmin=0, vmax=1, extent=(0, 8, 4, 8))
        ax.imshow(bottom.reshape(4, 8).numpy(), cmap=cmap, vmin=0, vmax=most, extent=(0, 8, 0, 4))
        ax.axhline(4, color="C1", linewidth=1.5)
        ax.set(xlim=(0, 8), ylim=(0, 8), xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    line[0].set_ylabel(name, rotation=0, ha="right", va="center", size=13, labelpad=8)
plt.show()
