r"""
Wrong labels run hot
====================

One label in twenty of scikit-learn's digits is wrong. :class:`~likely.Data` gives every training
row its own temperature. It rises if the label contradicts the prediction of the network, until the row
has little influence; so the rows with the highest temperatures are the ones to look at.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

import likely

torch.manual_seed(0)
images, truth = (torch.as_tensor(part) for part in load_digits(return_X_y=True))
images = images.float() / 16
n, wrong = len(truth), torch.randperm(len(truth))[:90]
labels = truth.clone()
labels[wrong] = (truth[wrong] + torch.randint(1, 10, (90,))) % 10

# %%
# The rows are found by their number, which ``IndexedDataset`` appends to each batch.

data = likely.IndexedDataset(torch.utils.data.TensorDataset(images, labels))
loader = torch.utils.data.DataLoader(data, batch_size=128, shuffle=True)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
loss_fn = likely.SoftmaxLoss(temperature=likely.Data(n, lr=0.05))
optimizer = torch.optim.AdamW(likely.param_groups(model, loss_fn, lr=0.003))
for _ in range(25):
    for batch, label, index in loader:
        optimizer.zero_grad()
        loss_fn(model(batch), label, index=index).backward()
        optimizer.step()

# %%
# The eighteen rows with the highest temperatures, and the label of each.

temperature = loss_fn.temperature.value
hottest = temperature.argsort(descending=True)
found = torch.isin(hottest[:90], wrong).float().mean()
print(f"{found:.0%} of the 90 hottest rows have a wrong label")

fig = plt.figure(figsize=(7.2, 5.2), layout="constrained")
top, below = fig.subfigures(2, 1, height_ratios=[3, 2])
top.suptitle("The hottest rows, and what they are labelled", x=0.02, ha="left", weight="bold")
for ax, row in zip(top.subplots(2, 9).flat, hottest[:18].tolist(), strict=True):
    ax.imshow(images[row].reshape(8, 8).numpy(), cmap="gray_r")
    colour = "C1" if labels[row] != truth[row] else "0.4"
    ax.set_title(f"“{labels[row]}”", loc="center", pad=3, size=15, color=colour)
    ax.set_axis_off()

ax = below.subplots()
bins = torch.logspace(temperature.min().log10(), temperature.max().log10(), 50)
is_wrong = labels != truth
ax.hist(temperature[~is_wrong], bins, color="C0", alpha=0.75)
ax.hist(temperature[is_wrong], bins, color="C1", alpha=0.85)
ax.set(xscale="log", yscale="log", xlabel="temperature of the row", ylabel="rows")
ax.set_xticks([0.25, 0.5, 1, 2, 4], ["¼", "½", "1", "2", "4"])
ax.set_xticks([], minor=True)
ax.text(0.42, 0.8, "right labels", color="C0", transform=ax.transAxes)
ax.text(0.77, 0.62, "wrong labels", color="C1", transform=ax.transAxes)
plt.show()
