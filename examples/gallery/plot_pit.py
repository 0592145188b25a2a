r"""
Is the forecast honest?
=======================

The spread between the trees of a forest is a common, and poor, measure of its uncertainty. The PIT
(probability integral transform), the level of the forecast distribution at which each target lies,
should be uniform. :class:`~likely.calibration.IsotonicScale`, fitted to held-out rows, corrects the
whole shape of the forecasts: scale, tails and skew.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestRegressor

from likely.calibration import IsotonicScale
from likely.plots import PITDisplay

rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 4))
scale = 0.4 * np.exp(0.7 * X[:, 0])
y = np.sin(2 * X[:, 0]) + X[:, 1] / 2 + scale * rng.normal(size=3000)
train, held_out, test = slice(0, 1000), slice(1000, 2000), slice(2000, None)
forest = RandomForestRegressor(100, min_samples_leaf=10, random_state=0).fit(X[train], y[train])
trees = np.stack([tree.predict(X) for tree in forest.estimators_])
mean, spread = trees.mean(0), trees.std(0)

# %%
# Every calibrator of scales is fitted to means, scales (or None) and targets, and returns
# distributions.

calibrator = IsotonicScale().fit(mean[held_out], spread[held_out], y[held_out])
repaired = calibrator.distribution(mean[test], spread[test])

# %%
# A U shape means forecasts that are too narrow. Random variation lies within the grey band.

fig, axes = plt.subplots(1, 2, figsize=(7.6, 4.8), layout="constrained", sharey=True)
as_it_is = {"mean": mean[test], "scale": spread[test]}
PITDisplay.from_predictions(y[test], **as_it_is, n_bins=15, color="C1", ax=axes[0])
PITDisplay.from_predictions(y[test], repaired, n_bins=15, color="C0", ax=axes[1])
axes[0].set_title("Spread of the trees", color="C1")
axes[1].set(ylabel="", ylim=(0, 3.6))
for ax in axes:
    ax.set(xlabel="level in the forecast (PIT)", xticks=[0, 0.5, 1])
axes[0].text(0.5, 2.0, "too narrow", color="C1", ha="center", size=15)
axes[1].set_title("Recalibrated", color="C0")
axes[0].get_legend().remove()
plt.show()
