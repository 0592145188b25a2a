r"""
How sure, and where
===================

A sensor that gets noisier with the temperature. :class:`~likely.Predicted` predicts the scale from the
input while a network learns the mean; :meth:`~likely.LikelihoodLoss.distribution` returns a torch
distribution, with quantiles.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import likely

torch.manual_seed(1)
x = torch.rand(600, 1).sort(0).values
noise = 0.05 + 0.6 * x**3
y = torch.sin(6 * x) + noise * torch.randn(600, 1)

# %%
# ``Supervised`` joins model and loss, and ``features`` names the layer from which the scale is predicted.

model = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
loss_fn = likely.NormalLoss(scale=likely.Predicted(64), beta=0.5)
step = likely.Supervised(model, loss_fn, features="3")
optimizer = torch.optim.Adam(likely.param_groups(model, loss_fn, lr=0.003))
for _ in range(1200):
    optimizer.zero_grad()
    step(x, y).backward()
    optimizer.step()

# %%
# The band holds nine rows in ten, at the quiet end and at the noisy end.

loss_fn.eval()
with torch.no_grad():
    forecast = loss_fn.distribution(model(x), features=model[:4](x))
    lower, upper = (forecast.icdf(torch.full_like(y, level)) for level in (0.05, 0.95))
inside = ((lower < y) & (y < upper)).flatten()

fig, (ax, side) = plt.subplots(1, 2, figsize=(7.6, 4.8), layout="constrained", width_ratios=[3, 2])
ax.fill_between(x.flatten(), lower.flatten(), upper.flatten(), color="C0", alpha=0.2, linewidth=0)
ax.plot(x, forecast.mean, color="C0")
ax.scatter(x[inside], y[inside], s=7, color="0.45")
ax.scatter(x[~inside], y[~inside], s=14, color="C1")
ax.text(0.01, -0.9, f"{inside.float().mean():.0%} of rows are\nin the 90% band", color="C0")
ax.set(xlabel="temperature", ylabel="reading", title="A band as wide as the noise")

side.plot(x, forecast.stddev, color="C0")
side.plot(x, noise, color="black", linewidth=1, linestyle=(0, (4, 3)))
side.text(0.93, 0.7, "learned", color="C0", ha="right")
side.text(0.83, 0.22, "true", color="black")
side.set(xlabel="temperature", ylabel="scale", ylim=(0, None), title="Its scale")
plt.show()
