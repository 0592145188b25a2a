r"""
Principal components of what can be trusted
===========================================

A few readings taken with the wrong settings turn the first principal component towards them.
:class:`~likely.linear.RobustPCA` has a scale per row: a row far from the line has a large scale, and
hardly any influence.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from likely.linear import RobustPCA

rng = np.random.default_rng(2)
X = rng.normal(size=(200, 1)) * [3.0, 1.5] + 0.35 * rng.normal(size=(200, 2))
X[:30] = rng.normal(loc=(5, -9), size=(30, 2))

plain, robust = PCA(1).fit(X), RobustPCA(1).fit(X)
wrong, sound = robust.weights_[:30], robust.weights_[30:]
print(f"mean weight of the wrong rows {wrong.mean():.2f}, of the others {sound.mean():.2f}")

# %%
# The size of a point is its weight: the wrong rows have almost none.

fig, ax = plt.subplots(figsize=(7.0, 4.8), layout="constrained")
ax.scatter(*X.T, s=8 + 34 * robust.weights_, color="0.5", edgecolor="white", linewidth=0.4)
for name, model, colour, end in (("PCA", plain, "C1", 0), ("robust PCA", robust, "C0", 1)):
    direction = model.components_[0] * np.sign(model.components_[0, 0])
    ends = model.mean_ + np.outer([-8, 8], direction)
    ax.plot(*ends.T, color=colour, linewidth=2.5)
    ax.text(*(ends[end] + [0.3, 0.3]), name, color=colour, size=15)
ax.text(3.0, -9.0, "wrong settings", color="0.4", ha="right", va="center")
ax.set(aspect="equal", xlim=(-11, 14), ylim=(-12, 7))
ax.set(xlabel="first reading", ylabel="second reading")
ax.set_title("The direction of most variance")
plt.show()
