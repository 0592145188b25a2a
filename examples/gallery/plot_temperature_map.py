r"""
Where a classifier should doubt itself
======================================

A network was trained on two clean moons. In use, one region turns out to be unreliable: there, four
labels in ten are wrong. :class:`~likely.calibration.DeepTemperature` learns a temperature that
depends on the input, from some labelled rows of the new kind, and it is high in that region. The
network and its predicted classes are not changed.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm
from sklearn.datasets import make_moons
from sklearn.neural_network import MLPClassifier

from likely.calibration import DeepTemperature

network = MLPClassifier((32, 32), random_state=0, max_iter=500)
network.fit(*make_moons(500, noise=0.15, random_state=0))
X, y = make_moons(2000, noise=0.15, random_state=1)
unreliable = np.hypot(X[:, 0] - 1.6, X[:, 1] - 0) < 0.7
y = np.where(unreliable & (np.random.default_rng(0).random(2000) < 0.4), 1 - y, y)

# %%
# Calibrators take logits, labels and, where a temperature may depend on them, features.


def logits(points):
    return network.predict_log_proba(points).clip(min=-30)


calibrator = DeepTemperature(random_state=0).fit(logits(X), y, features=X)

# %%
# The map has the temperature of every place in the plane, in logarithmic colours, since a temperature multiplies. Every
# fourth row is drawn.
across, up = np.meshgrid(*np.linspace(X.min(0) - 0.3, X.max(0) + 0.3, 200).T)
places = np.stack([across, up], axis=-1).reshape(-1, 2)
temperature = calibrator.temperature(logits(places), places).reshape(across.shape)

fig, ax = plt.subplots(figsize=(7.0, 4.8), layout="constrained")
mesh = ax.pcolormesh(across, up, temperature, norm=LogNorm(), shading="auto", rasterized=True)
fig.colorbar(mesh, label="Temperature")
for kind, marker in enumerate("os"):
    points = X[::4][y[::4] == kind]
    ax.scatter(*points.T, s=26, marker=marker, edgecolor="white", linewidth=0.7, label=f"class {kind}")
ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)
ax.set(xlabel="", ylabel="", xticks=[], yticks=[])
plt.show()
