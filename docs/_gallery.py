"""The gallery's order, look and pictures. conf.py gives sphinx-gallery these by name: it pickles its settings."""

from pathlib import Path
from typing import Any

from _pictures import themed_svg

# First the idea, then estimators by what they are for.
ORDER = [
    "robust_line",
    "sensor_scale",
    "wrong_labels",
    "missing_half",
    "rho_family",
    "counts",
    "multitask",
    "token_temperature",
    "reliability",
    "temperature_map",
    "pit",
    "coverage",
    "explained_outliers",
    "robust_pca",
    "spike_slab",
    "ridge_evidence",
    "pruning",
]
LOOK = {
    "figure.dpi": 100,
    "font.size": 13,
    "axes.titlesize": 15,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "0.4",
    "axes.labelcolor": "0.25",
    "xtick.color": "0.4",
    "ytick.color": "0.4",
    "legend.frameon": False,
    "lines.linewidth": 2.0,
}
# Okabe and Ito's colours, which the colour-blind can tell apart: blue, vermilion, green, orange, purple, sky.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9"]


class Order:
    """Sorts the examples; one that is not in the list comes last, by its name."""

    def __init__(self, src_dir: str) -> None:
        self.src_dir = src_dir

    def __call__(self, filename: str) -> tuple[int, str]:
        name = filename.removeprefix("plot_").removesuffix(".py")
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def reset(gallery_conf: dict[str, Any], fname: str) -> None:
    """Give an example the look and the seeds that all of them start with."""
    import matplotlib
    import numpy as np
    import torch

    matplotlib.rcParams.update(LOOK)
    matplotlib.rcParams["axes.prop_cycle"] = matplotlib.cycler(color=COLOURS)
    np.random.seed(0)  # noqa: NPY002 (scikit-learn's default is the global generator)
    torch.manual_seed(0)


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the open figures as pictures for light and dark pages, and return the text that shows them."""
    import matplotlib.pyplot as plt
    from sphinx_gallery.scrapers import figure_rst

    figures = [plt.figure(number) for number in plt.get_fignums()]
    paths = [Path(next(block_vars["image_path_iterator"])).with_suffix(".svg") for _ in figures]
    for figure, path in zip(figures, paths, strict=True):
        path.write_text(themed_svg(figure), encoding="utf-8")
    titles = [axes.get_title(loc) for figure in figures for axes in figure.axes for loc in ("left", "center", "right")]
    plt.close("all")
    return figure_rst([str(path) for path in paths], gallery_conf["src_dir"], ", ".join(filter(None, titles)))
