r"""
One family from Cauchy's tails to the normal
============================================

The shape α of Barron's density ρ sets how unlikely large values are. It does not have to be
chosen: fitted to samples of a Cauchy, a logistic and a normal distribution, α and the scale adapt to
their tails.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

import likely

rng = np.random.default_rng(0)
samples = {
    "Cauchy": rng.standard_cauchy(size=5000),
    "logistic": rng.logistic(size=5000),
    "normal": rng.normal(size=5000),
}

# %%
# α and the scale are the only parameters; the optimizer is torch's L-BFGS.


def fit(sample):
    sample = torch.as_tensor(sample, dtype=torch.float32)
    loss_fn = likely.RobustLoss(alpha=likely.Global(init=1.0))
    optimizer = torch.optim.LBFGS(loss_fn.parameters(), line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = loss_fn(torch.zeros_like(sample), sample)
        loss.backward()
        return loss

    optimizer.step(closure)
    return loss_fn


# %%
# Left, the family at one scale. Right, how often a value lies beyond a distance: sampled (dots) and
# fitted (lines).

fig, (ax, tails) = plt.subplots(1, 2, figsize=(7.6, 4.8), layout="constrained")
x = torch.linspace(-6, 6, 400)
for alpha in (0.0, 0.5, 1.0, 1.5, 2.0):
    colour = plt.get_cmap("plasma")(0.43 * alpha)
    density = likely.distributions.Robust(alpha, 0.0, 1.0).log_prob(x).exp()
    ax.plot(x, density, color=colour, label=f"{alpha:g}")
ax.set(yscale="log", ylim=(2e-5, 0.7), xlabel="residual, in scales", ylabel="density")
ax.set_title("The family ρ")
ax.legend(title="α", loc="lower center", ncols=1, handlelength=1.2)

far = torch.logspace(-0.3, 2.7, 100)
places = {"Cauchy": (40, 0.03), "logistic": (8.5, 0.004), "normal": (0.55, 0.0007)}
for (name, sample), colour in zip(samples.items(), ("C1", "C2", "C0"), strict=True):
    loss_fn = fit(sample)
    with torch.no_grad():
        beyond = 2 * loss_fn.distribution(torch.zeros(100)).cdf(-far)
    tails.plot(far, beyond, color=colour)
    seen = np.sort(np.abs(sample))[::-1]
    ranks = np.unique(np.logspace(0, 3.5, 40).astype(int))
    tails.plot(seen[ranks - 1], ranks / 5000, "o", markersize=4, color=colour)
    label = f"{name}\nα = {loss_fn.alpha.value.item():.1f}"
    tails.text(*places[name], label, color=colour)
tails.set(xscale="log", yscale="log", xlim=(0.5, 500), ylim=(2e-4, 1))
tails.set(xlabel="distance", ylabel="share of values beyond")
tails.set_title("Fitted to samples")
plt.show()
