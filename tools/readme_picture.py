"""Draw the picture of the README and the site, docs/_static/likely.{png,svg}: `python tools/readme_picture.py`."""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

import likely

STATIC = Path(__file__).parents[1] / "docs" / "_static"
sys.path.insert(0, str(STATIC.parent))

from _pictures import themed_svg  # noqa: E402

INK, BLUE, RED, GREY = "#1f2430", "#2a6fbb", "#c8503c", "#9aa0aa"


def train(model, loss_fn, x, y, steps, multiplier=1.0, features=None):
    optimizer = torch.optim.Adam(likely.param_groups(model, loss_fn, lr=0.02, multiplier=multiplier))
    for _ in range(steps):
        optimizer.zero_grad()
        hidden = None if features is None else features(x)
        loss_fn(model(x), y, features=hidden).backward()
        optimizer.step()


def line(axes):
    torch.manual_seed(0)
    x = torch.rand(80, 1)
    y = 2 * x + 0.1 * torch.randn(80, 1)
    y[::6] += 3.4 - 4 * x[::6] + 0.2 * torch.randn(len(y[::6]), 1)
    grid = torch.linspace(0, 1, 2)[:, None]
    axes.plot(x, y, "o", color=GREY, markersize=4, markeredgewidth=0)
    for loss_fn, name, colour, at in (
        (likely.NormalLoss(), "squared error", RED, (0.16, 1.5)),
        (likely.RobustLoss(), "RobustLoss", BLUE, (0.45, 0.5)),
    ):
        model = torch.nn.Linear(1, 1)
        train(model, loss_fn, x, y, 2000)
        with torch.no_grad():
            axes.plot(grid, model(grid), color=colour, linewidth=2.5)
        axes.text(*at, name, color=colour)
    axes.set_title("Outliers lose their pull", loc="left")


def band(axes):
    torch.manual_seed(1)
    x = torch.rand(400, 1)
    y = torch.sin(6 * x) + (0.04 + 0.45 * x**2) * torch.randn(400, 1)
    body = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 32), torch.nn.Tanh())
    model = torch.nn.Sequential(body, torch.nn.Linear(32, 1))
    loss_fn = likely.NormalLoss(scale=likely.Predicted(32), beta=0.5)
    train(model, loss_fn, x, y, 1500, features=body)
    grid = torch.linspace(0, 1, 200)[:, None]
    with torch.no_grad():
        hidden = body(grid)
        forecast = loss_fn.eval().distribution(model(grid), features=hidden)
    middle, scale = forecast.mean.flatten(), forecast.scale.flatten()
    axes.plot(x, y, "o", color=GREY, markersize=3, markeredgewidth=0)
    axes.fill_between(grid.flatten(), middle - 1.64 * scale, middle + 1.64 * scale, color=BLUE, alpha=0.2, linewidth=0)
    axes.plot(grid, middle, color=BLUE, linewidth=2.5)
    axes.set_title("Noise predicted from the input", loc="left")


def digits(axes):
    from sklearn.datasets import load_digits

    bunch = load_digits()
    truth = torch.as_tensor(bunch.target)
    generator = torch.Generator().manual_seed(0)
    wrong = torch.randperm(len(truth), generator=generator)[:90]
    given = truth.clone()
    given[wrong] = (truth[wrong] + torch.randint(1, 10, (90,), generator=generator)) % 10
    x = torch.as_tensor(bunch.data / 16).float()
    torch.manual_seed(0)
    dataset = likely.IndexedDataset(torch.utils.data.TensorDataset(x, given))
    loader = torch.utils.data.DataLoader(dataset, batch_size=100, shuffle=True)
    model, loss_fn = torch.nn.Linear(64, 10), likely.SoftmaxLoss(temperature=likely.Data(len(dataset)))
    optimizer = torch.optim.Adam(likely.param_groups(model, loss_fn, lr=0.02))
    for _ in range(20):
        for batch, label, index in loader:
            optimizer.zero_grad()
            loss_fn(model(batch), label, index=index).backward()
            optimizer.step()
    hottest = loss_fn.temperature.value.topk(12).indices.numpy()
    tiles = np.full((3 * 13, 4 * 13), np.nan)
    for place, row in enumerate(hottest):
        down, right = divmod(place, 4)
        tiles[13 * down : 13 * down + 8, 13 * right : 13 * right + 8] = bunch.images[row]
        colour = RED if row in set(wrong.tolist()) else INK
        axes.text(13 * right + 3.5, 13 * down + 10.6, f"“{given[row]}”", color=colour, ha="center", fontsize=10)
    axes.imshow(tiles, cmap="gray_r", interpolation="nearest")
    axes.set_axis_off()
    axes.set_title("High temperature: wrong label", loc="left")


def main():
    plt.rcParams.update({"font.size": 11, "text.color": INK, "axes.edgecolor": GREY, "axes.titlesize": 12.5})
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.3), layout="constrained", facecolor="white")
    for ax, draw in zip(axes, (line, band, digits), strict=True):
        draw(ax)
        ax.set_xticks([])
        ax.set_yticks([])
        ax.set_anchor("N")
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(STATIC / "likely.png", dpi=130)
    STATIC.joinpath("likely.svg").write_text(themed_svg(figure), encoding="utf-8")


if __name__ == "__main__":
    main()
