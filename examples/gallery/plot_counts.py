r"""
Counts that vary more than they should
======================================

Visitors per hour: weather and chance make them vary far more than a Poisson count of the same mean.
:class:`~likely.NegativeBinomialLoss` is the Poisson likelihood with a dispersion that learns. The
expected count is unchanged; the range around it gets the right width.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

import likely

rng = np.random.default_rng(0)
hour = rng.uniform(6, 22, size=700)
expected = 60 * np.exp(-(((hour - 14) / 4) ** 2)) + 4
counts = rng.poisson(expected * rng.gamma(4, 1 / 4, size=700))
visitors = torch.as_tensor(counts, dtype=torch.float32)


def waves(hour):
    turn = torch.as_tensor(hour, dtype=torch.float32)[:, None] / 24 * 2 * torch.pi
    angle = turn * torch.arange(1, 4)
    return torch.cat([angle.sin(), angle.cos()], dim=1)


# %%
# The logarithm of the rate is linear in sines and cosines of the hour.


def fit(loss_fn):
    model = torch.nn.Linear(6, 1)
    optimizer = torch.optim.Adam(likely.param_groups(model, loss_fn, lr=0.05))
    for _ in range(800):
        optimizer.zero_grad()
        loss_fn(model(waves(hour)).flatten(), visitors).backward()
        optimizer.step()
    with torch.no_grad():
        return [loss_fn.distribution(model(waves(each)).flatten()) for each in (hour, line)]


line = np.linspace(6, 22, 200)
torch.manual_seed(0)
losses = {"Poisson": likely.PoissonLoss(), "Negative binomial": likely.NegativeBinomialLoss()}
fits = {name: fit(loss_fn) for name, loss_fn in losses.items()}

# %%
# The 90% range of each, by sampling, and the share of hours that lie in it.

fig, axes = plt.subplots(1, 2, figsize=(7.6, 4.8), layout="constrained", sharex=True, sharey=True)
for ax, (name, (rows, curve)), colour in zip(axes, fits.items(), ("C1", "C0"), strict=True):
    low, high = np.quantile(curve.sample((4000,)), [0.05, 0.95], axis=0)
    ends = np.quantile(rows.sample((4000,)), [0.05, 0.95], axis=0)
    inside = (ends[0] <= counts) & (counts <= ends[1])
    ax.fill_between(line, low, high, color=colour, alpha=0.22, linewidth=0)
    ax.plot(line, curve.mean, color=colour)
    ax.scatter(hour, counts, s=6, color=np.where(inside, "0.45", "black"))
    ax.set(xlabel="hour of the day", xticks=[6, 10, 14, 18, 22])
    ax.text(6, 145, f"{inside.mean():.0%} of hours are\nin the 90% range", color=colour)
    ax.set_title(name, color=colour)
axes[0].set_ylabel("visitors")
plt.show()
