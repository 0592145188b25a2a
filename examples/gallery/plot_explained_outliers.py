r"""
Which wines are odd, and why
============================

:class:`~likely.outliers.LikelihoodDetector` scores every row of a table and splits the score into
the contributions of the columns. So every outlier has its reasons.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from likely.outliers import LikelihoodDetector

wine = load_wine(as_frame=True)
X = wine.data

# %%
# There are no labels and no options to tune. The contributions of a row add up to its score.

detector = LikelihoodDetector(random_state=0).fit(X)
score, parts = detector.outlier_score(X), detector.explain(X)
oddest = np.argsort(score)[::-1][:7]
assert np.allclose(parts.sum(axis=1), score)

# %%
# The darker a cell, the larger the contribution of its column; the number in it is the value, in
# standard deviations from the mean of the column.

deviations = (X - X.mean()) / X.std()
shown = parts.iloc[oddest]
columns = shown.max().nlargest(7).index  # the parts have the names of the table's columns
shown = shown[columns].to_numpy()
fig, (ax, bars) = plt.subplots(1, 2, figsize=(7.6, 5.2), layout="constrained", width_ratios=[5, 1])
ax.imshow(shown.clip(min=0), cmap="Blues", aspect="auto", vmin=0)
for i, row in enumerate(oddest):
    for j, column in enumerate(columns):
        loud = shown[i, j] > 0.35 * shown.max()
        value, colour = f"{deviations[column].iloc[row]:+.1f}", "lightyellow" if loud else "midnightblue"
        ax.text(j, i, value, ha="center", va="center", color=colour)
names = columns.str.replace("_", " ").str.replace("nonflavanoid", "non-fl.")
ax.set_xticks(range(len(columns)), names, rotation=40, ha="right", rotation_mode="anchor")
ax.set_yticks(range(len(oddest)), [f"wine {row}" for row in oddest])
ax.tick_params(length=0)
ax.spines[:].set_visible(False)
ax.set_title("Why each wine is odd")
bars.barh(range(len(oddest)), score[oddest], color="C0")
bars.set(xlabel="score", ylim=ax.get_ylim(), yticks=[], title="How odd")
plt.show()
