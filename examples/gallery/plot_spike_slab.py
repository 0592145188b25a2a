r"""
Sparse weights without cross-validation
=======================================

100 rows, 200 columns, 15 of which matter. In the lasso, a strength that sets the useless
weights to zero shrinks the useful ones too. :class:`~likely.linear.SpikeSlabRegression` returns the
probability that each weight is not zero, and learns the rest of its prior, and the noise, from the
same rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LassoCV

from likely.linear import SpikeSlabRegression

rng = np.random.default_rng(0)
X, truth = rng.normal(size=(100, 200)), np.zeros(200)
used = np.sort(rng.choice(200, 15, replace=False))
truth[used] = rng.uniform(1, 2, size=15) * rng.choice([-1, 1], size=15)
y = X @ truth + rng.normal(size=100)

# %%
# The strength of the lasso is chosen by cross-validation; spike and slab has no strength to choose.

lasso = LassoCV(cv=5, random_state=0).fit(X, y)
slab = SpikeSlabRegression().fit(X, y)
lasso_uses, slab_uses = np.count_nonzero(lasso.coef_), (slab.inclusion_ > 0.5).sum()
print(f"weights that are not zero: lasso {lasso_uses}, spike and slab {slab_uses}")

# %%
# Rings are the true weights.

fig, axes = plt.subplots(2, 1, figsize=(7.4, 5.0), layout="constrained", sharex=True, sharey=True)
for ax, name, model, colour in zip(
    axes, ("Lasso, cross-validated", "Spike and slab"), (lasso, slab), ("C1", "C0"), strict=True
):
    ax.vlines(np.arange(200), 0, model.coef_, color=colour, linewidth=1.6)
    size = np.where(np.abs(model.coef_) > 0.02, 16, 0)
    ax.scatter(np.arange(200), model.coef_, s=size, color=colour, zorder=3)
    ax.scatter(used, truth[used], s=60, facecolor="none", edgecolor="black", zorder=4)
    ax.axhline(0, color="0.6", linewidth=0.8)
    error = np.linalg.norm(model.coef_ - truth) / np.linalg.norm(truth)
    ax.set(ylabel="weight", ylim=(-2.4, 2.7))
    ax.set_title(f"{name}: off by {error:.0%}", color=colour)
axes[1].set(xlabel="column", xlim=(-3, 202))
plt.show()
