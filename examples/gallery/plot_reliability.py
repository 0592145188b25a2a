r"""
A classifier that is as sure as it is right
===========================================

A network that was trained until it fits is more confident than it should be. The
network is not changed: :class:`~likely.calibration.CalibratedClassifier` learns one temperature from
rows that were not used in training. It divides the logits, which corrects the confidence without
changing any predicted class.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.neural_network import MLPClassifier

from likely.calibration import CalibratedClassifier
from likely.plots import ReliabilityDisplay

X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
X = X + rng.normal(scale=6, size=X.shape)  # bad scans
rows = rng.permutation(len(y))
train, held_out, test = rows[:500], rows[500:800], rows[800:]

# %%
# The classifier in use, and the same one with a temperature.

network = MLPClassifier(100, alpha=1e-5, max_iter=400, random_state=0).fit(X[train], y[train])
calibrated = CalibratedClassifier(FrozenEstimator(network), method="global")
calibrated.fit(X[held_out], y[held_out])
assert (network.predict(X[test]) == calibrated.predict(X[test])).all()

# %%
# On the diagonal, the confidence equals the accuracy. The bars are 90% intervals for each dot; the
# histogram shows where rows are.

fig, ax = plt.subplots(figsize=(5.4, 5.8), layout="constrained")
for name, model, colour in (("as it is", network, "C1"), ("recalibrated", calibrated, "C0")):
    options = {"name": name, "color": colour, "n_bins": 8, "ax": ax}
    ReliabilityDisplay.from_estimator(model, X[test], y[test], **options)
ax.text(0.98, 0.2, "overconfident", color="0.4", ha="right")
ax.set_title("Is a 70% right in 70% of cases?")
plt.show()
