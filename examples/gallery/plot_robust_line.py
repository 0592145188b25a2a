r"""
A line through outliers
=======================

One row in six is too high by far, and the line of squared error follows these rows.
:class:`~likely.RobustLoss` has a shape α beside its scale, and both learn with the line: α = 2 is the
normal, α = 0 has the tails of the Cauchy, under which distant rows are not unlikely.
"""

import matplotlib.pyplot as plt
import torch

import likely

torch.manual_seed(0)
x = 4 * torch.rand(150, 1)
y = 1 + 0.5 * x + 0.2 * torch.randn(150, 1)
ruined = x.flatten().argsort()[-60:][torch.randperm(60)[:25]]
y[ruined] += 2 + 2 * torch.rand(25, 1)

# %%
# Training is the same for every loss. ``param_groups`` passes the likelihood's own parameters to the
# optimizer.


def fit(loss_fn, steps=1200):
    torch.manual_seed(0)
    model, path = torch.nn.Linear(1, 1), []
    optimizer = torch.optim.Adam(likely.param_groups(model, loss_fn, lr=0.03))
    for _ in range(steps):
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()
        path.append(loss_fn.alpha.value.item() if hasattr(loss_fn, "alpha") else 2.0)
    return model, path


squared, _ = fit(likely.NormalLoss())
robust, alpha = fit(likely.RobustLoss())

# %%
# The robust line is where it would be without the wrong rows. Its α moves away from 2 as soon as the
# residuals have long tails.

fig, (ax, side) = plt.subplots(1, 2, figsize=(7.6, 4.8), layout="constrained", width_ratios=[3, 2])
clean = torch.ones(150, dtype=bool)
clean[ruined] = False
ax.scatter(x[clean], y[clean], s=14, color="0.55", label="sound")
ax.scatter(x[ruined], y[ruined], s=22, color="C3", marker="x", label="ruined")
ends = torch.tensor([[0.0], [4.0]])
with torch.no_grad():
    ax.plot(ends, squared(ends), color="C1")
    ax.plot(ends, robust(ends), color="C0")
    ax.text(4.05, squared(ends)[1], "squared\nerror", color="C1", va="center")
    ax.text(4.05, robust(ends)[1], "robust", color="C0", va="center")
ax.plot(ends, 1 + 0.5 * ends, color="black", linewidth=1, linestyle="dashed", label="the truth")
ax.set(xlabel="x", ylabel="y", xlim=(0, 5.1), title="One row in six is ruined")
ax.legend(loc="upper left")

side.plot(alpha, color="C0")
for value, up, name in ((2, 0.05, "normal"), (0, -0.14, "Cauchy's tails")):
    side.axhline(value, color="0.6", linewidth=1, linestyle=(0, (4, 3)))
    side.text(1200, value + up, name, ha="right", color="0.4")
side.set(xlabel="training step", ylabel="α", ylim=(-0.25, 2.3), title="α learns with it")
plt.show()
