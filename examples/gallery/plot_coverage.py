r"""
Ninety percent, everywhere
==========================

An interval of the same width for all rows can hold nine targets in ten on average and still be wrong on
every single row: too wide where the noise is small, too narrow where it is large.
:class:`~likely.tabular.NetworkRegressor` predicts a distribution for every row, and its intervals
have their nominal coverage for easy rows and for hard ones.
"""

import matplotlib.pyplot as plt
import numpy as np

from likely.tabular import NetworkRegressor

rng = np.random.default_rng(0)
X = rng.normal(size=(6000, 2))
scale = 0.4 * np.exp(0.7 * X[:, 0])
y = np.sin(2 * X[:, 0]) + X[:, 1] / 2 + scale * rng.normal(size=6000)
train, test = slice(0, 2000), slice(2000, None)

# %%
# ``scale`` sets what the scale of a row depends on: nothing, or the input, which is the
# default.


def covered(kind):
    options = {"hidden": (64,), "max_steps": 500, "random_state": 0}
    model = NetworkRegressor(scale=kind, **options).fit(X[train], y[train])
    lower, upper = model.predict_interval(X[test], coverage=0.9)
    return (lower < y[test]) & (y[test] < upper), upper - lower


# %%
# New rows, in ten groups from the least noise to the most.

groups = np.array_split(np.argsort(scale[test]), 10)
noise = [scale[test][group].mean() for group in groups]
fig, (ax, widths) = plt.subplots(1, 2, figsize=(7.6, 4.8), layout="constrained", width_ratios=[4, 3])
for kind, colour in (("global", "C1"), ("predicted", "C0")):
    inside, width = covered(kind)
    ax.plot(noise, [inside[group].mean() for group in groups], marker="o", color=colour)
    widths.plot(noise, [width[group].mean() for group in groups], marker="o", color=colour)
    print(f"{kind}: {inside.mean():.1%} on average")
ax.axhline(0.9, color="black", linewidth=1, linestyle=(0, (4, 3)))
ax.text(0.12, 0.83, "a scale for each row", color="C0")
ax.text(0.75, 0.63, "one scale", color="C1", ha="right")
ax.set(xscale="log", ylim=(0.4, 1.03), xlabel="noise of the rows", ylabel="targets inside")
ax.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
ax.set_title("What 90% intervals hold")
widths.set(xscale="log", yscale="log", xlabel="noise of the rows", title="Their width")
for each in (ax, widths):
    each.set_xticks([0.2, 0.5, 1], ["0.2", "0.5", "1"])
    each.set_xticks([], minor=True)
widths.set_yticks([0.5, 1, 2, 5], ["0.5", "1", "2", "5"])
widths.set_yticks([], minor=True)
plt.show()
