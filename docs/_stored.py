"""Numbers of the README and the pages, rewritten from the stored results: ``python docs/_stored.py``.

A number stands between two comments, which no reader sees. The first says where it comes from::

    <!-- stored: bar | audit | wrong targets, mean AP | 3 -->.826<!-- end -->

- ``bar | FILE | FIGURE | DIGITS``: a figure of ``experiments/benchmarks/results/FILE.json``; ``bound``: its goal
  (a bar, in the record);
- ``bars | FILE``: a table of all figures;
- ``table | FILE | CAPTION | COLUMNS | DIGITS``: columns of the table whose caption begins so;
- ``versus | LIBRARY``: what is measured beside a library;
- other names are functions of this file.

A comment that begins a line is a block by itself; inside a sentence it stands after a word. ``tests/test_guide.py``
fails where a page is older than a result.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from docs._versus import HEADER, comparison  # noqa: E402
from scipy.stats import pearsonr, spearmanr  # noqa: E402

from experiments.entries.bar import Bar  # noqa: E402
from experiments.entries.record import bar_from_json  # noqa: E402
from experiments.paper._published import counted  # noqa: E402

BENCHMARKS = ROOT / "experiments" / "benchmarks" / "results"
PAPER = ROOT / "experiments" / "paper" / "results"
BLOCK = re.compile(r"(<!-- stored: (.*?) -->)(.*?)(<!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    """Every page that may hold stored numbers."""
    folders = [ROOT / "docs", ROOT / "docs" / "howto", ROOT / "docs" / "tutorials"]
    return [ROOT / "README.md", *(page for folder in folders for page in sorted(folder.glob("*.md")))]


def renewed(text: str) -> str:
    """The text with every stored number as the results have it now."""

    def block(match: re.Match[str]) -> str:
        name, *arguments = (part.strip() for part in match[2].split(" | "))
        content = BLOCKS[name](*arguments)
        alone = match.start() == 0 or text[match.start() - 1] == "\n"  # a comment that begins a line ends the paragraph
        return match[1] + (f"\n\n{content}\n\n" if alone else content) + match[4]

    return BLOCK.sub(block, text)


def result(file: str) -> dict[str, Any]:
    """The result of a benchmark or, by a name that no benchmark has, of a table or figure of the paper."""
    return record(file)["result"]


def record(file: str) -> dict[str, Any]:
    """What is stored of a benchmark, a table or a figure."""
    path = BENCHMARKS / f"{file}.json"
    return json.loads((path if path.exists() else PAPER / f"{file}.json").read_text(encoding="utf-8"))


def machine(file: str) -> str:
    """The processor that a benchmark was run on, in words."""
    cores = record(file)["machine"]["cores"]
    return {1: "one Xeon core", 2: "two Xeon cores"}.get(cores, f"{cores} Xeon cores")


def bars(file: str) -> dict[str, Bar]:
    """The figures of a benchmark by name."""
    return {bar.name: bar for bar in map(bar_from_json, result(file)["bars"])}


def rows(file: str, caption: str) -> list[dict[str, Any]]:
    """The rows of the table whose caption begins so."""
    (found,) = [table["rows"] for table in result(file)["tables"] if table["caption"].startswith(caption)]
    return found


def short(value: float, digits: int = 3) -> str:
    """A number with so many digits after the point, and none before it that is zero.

    >>> short(0.8508), short(-0.0042, 4), short(31.2, 0), short(1.0)
    ('.851', '−.0042', '31', '1.000')
    """
    return re.sub(r"^(−?)0\.", r"\1.", f"{value:z.{digits}f}".replace("-", "−"))


def markdown(header: list[str], body: list[list[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *body))


def words(text: str) -> str:
    """A name from a record in the words of the pages.

    >>> words("updates a second"), words("less a second head's")
    ('updates per second', "less a second head's")
    """
    return re.sub(r"\ban? (element|row|second(?! head)|pixel)\b", r"per \1", text)


def goal(bar: Bar) -> str:
    """The goal of a figure, which no narrow column breaks in two."""
    return bar.set_at.replace(" ", "\N{NO-BREAK SPACE}")


def cell(value: Any, digits: int) -> str:
    """A value of a stored table."""
    if value is None:
        return ""
    if not isinstance(value, float):
        return words(str(value))
    return f"{value:g}".removeprefix("0") if 0 < value == float(f"{value:.3g}") else short(value, digits)


def bar_block(file: str, figure: str, digits: str) -> str:
    """One measured figure."""
    return short(bars(file)[figure].value, int(digits))


def bound_block(file: str, figure: str, digits: str) -> str:
    """The goal of a figure."""
    return short(bars(file)[figure].bar, int(digits))


def bars_block(file: str) -> str:
    """Every figure of a benchmark beside its goal, or how to measure them where no run is stored."""
    if not (BENCHMARKS / f"{file}.json").exists():
        return f"No run of this benchmark is stored yet; `python -m experiments.benchmarks {file}` measures it."
    marks = {True: "✓", False: "✗", None: ""}
    body = [
        [words(bar.name) + (f" ({words(bar.case)})" if bar.case else ""), bar.measured, goal(bar), marks[bar.met]]
        for bar in bars(file).values()
    ]
    return markdown(["figure", "measured", "goal", ""], body)


def table_block(file: str, caption: str, columns: str, digits: str = "3") -> str:
    """Columns of a stored table."""
    names = [name.strip() for name in columns.split(";")]
    body = [[cell(row.get(name), int(digits)) for name in names] for row in rows(file, caption)]
    return markdown([words(name) for name in names], body)


def losses_block(file: str, where: str) -> str:
    """The figures of the large tensors measured at one place."""
    prefix = f"{where}, "
    body = [
        [words(bar.name.removeprefix(prefix)), bar.measured, goal(bar)]
        for bar in bars(file).values()
        if bar.name.startswith(prefix) and "by hand" not in bar.name
    ]
    return markdown(["", "measured", "goal"], body)


def mean_block(file: str, caption: str, column: str, digits: str = "3") -> str:
    """The mean of a column of a stored table."""
    return short(mean(rows(file, caption), column), int(digits))


def mean(table: list[dict[str, Any]], column: str, **where: Any) -> float:
    """The mean of a column over the rows that have these values."""
    values = [row[column] for row in table if all(row[key] == value for key, value in where.items())]
    return sum(value for value in values if value is not None) / sum(value is not None for value in values)


def composition_block() -> str:
    """Every calibrator alone and before a temperature per row: NLL less that of one temperature."""
    less = {row["method"]: row["less GS"] for row in rows("composition", "Mean over networks")}
    names = {
        "GS": "one temperature (GS)",
        "VS": "vector scaling (VS)",
        "SMS": "structured matrix scaling (SMS)",
        "SMS, fixed": "SMS, fixed penalty",
        "Auto": "`AutoCalibrator`",
        "probmetrics SVS": "probmetrics, structured vector scaling",
        "probmetrics SMS": "probmetrics, structured matrix scaling",
    }

    def value(name: str) -> str:
        return short(less[name], 4) if name in less else ""

    body = [
        [title, value(name), *(value(after if name == "GS" else f"{name} → {after}") for after in ("LS", "LFS"))]
        for name, title in names.items()
    ]
    return markdown(["", "alone", "then LS", "then LFS"], body)


def audit_block() -> str:
    """Average precision of planted and human errors."""
    labels, targets = (rows("audit", f"Average precision of planted wrong {kind}") for kind in ("labels", "targets"))
    body = [["labels", "four sets of scikit-learn; 2, 5 and 10% planted", *_means(labels, "1 - max")]]
    for planted in dict.fromkeys(row["planted"] for row in targets):
        some = [row for row in targets if row["planted"] == planted]
        body.append([f"targets, {planted}", f"{len(some)} regression sets, 5% planted", *_means(some, "residual")])
    human = rows("audit", "Average precision of labels that people found wrong")
    body += [[f"labels, {row['labels']}", row["data"], *_means([row], "1 - max")] for row in human]
    return markdown(["wrong", "data", "likely", "cleanlab", "plain"], body)


def _means(table: list[dict[str, Any]], plain: str) -> Iterator[str]:
    return (short(mean(table, column)) for column in ("likely", "cleanlab", plain))


def networks_block() -> str:
    """The default network beside one fitted scale: NLL, squared error and CAL."""
    nll, mse, cal = (rows("networks", f"Test {measure}, mean") for measure in ("NLL", "MSE", "CAL"))
    body = [
        [
            a["set"],
            short(a["default"] - a["plain"]),
            short(b["default"] / b["plain"]),
            short(c["default"]),
            short(c["plain"]),
        ]
        for a, b, c in zip(nll, mse, cal, strict=True)
    ]
    return markdown(["", "NLL less that of one scale", "MSE ÷ that of one scale", "CAL", "CAL of one scale"], body)


def regressors_block() -> str:
    """CAL of recalibrated regressors, mean over the paper's sets, best first."""
    here = [row for row in rows("regressor-calibration", "CAL, mean") if row["CAL"] == "here"]
    names = {
        "LS, then isotonic": "`LinearScale`, then `IsotonicScale`",
        "Isotonic, ours": "`IsotonicScale`",
        "Isotonic": "Kuleshov's isotonic map",
        "LS": "`LinearScale` (LS)",
        "DS": "`DeepScale` (DS)",
        "GS": "`GlobalScale` (GS)",
        "Uncalibrated": "uncalibrated",
    }
    means = sorted((mean(here, name), title) for name, title in names.items())
    return markdown(["", "mean CAL"], [[title, short(value, 4)] for value, title in means])


def noisy_block() -> str:
    """What a temperature per row gains in accuracy under human label noise."""
    table = rows("classifier-calibration", "Accuracy in %, by the clean labels")
    header = ["labels of CIFAR-10", "cross-entropy", "a temperature per row (`Data`)", "a predicted one (`Predicted`)"]
    columns = ("cross-entropy", "data", "joint, all one at first")
    return markdown(header, [[row["labels"], *(f"{row[column]:.1f}%" for column in columns)] for row in table])


def wine_block() -> str:
    """The squared error of a linear model on white wine."""
    found = rows("robust-regression-linear", "MSE of the standardised target")
    return short(mean(found, "base", set="wine", MSE="here"), 2)


def letter_block(model: str) -> str:
    """The median AUC of a model of the paper, built to its letter, beside the paper's."""
    (row,) = [row for row in rows("outlier-detection", "21 sets") if row["method"] == model]
    return f"{short(row['median AUC'])} (paper: {short(row['paper'])})"


def printed_block(measure: str) -> str:
    """How the "MSE" columns of the paper's robust regressions go with its CAL columns: by ranks, or with their root."""
    columns = {"base": "base, σ = 1", "temp": "temp"}  # of MSE and of CAL
    mse, cal = [], []
    for file in ("robust-regression-linear", "robust-regression-deep"):
        pairs = zip(rows(file, "MSE of the standardised"), rows(file, "CAL, mean"), strict=True)
        for a, b in ((a, b) for a, b in pairs if a["MSE"] == b["CAL"] == "paper"):
            mse += [a[name] for name in columns]
            cal += [b[name] for name in columns.values()]
    if measure == "pairs":
        return str(len(mse))
    return short(spearmanr(mse, cal)[0] if measure == "ranks" else pearsonr(mse, [c**0.5 for c in cal])[0], 2)


def below_block() -> str:
    """The planted errors that are found less well than by cleanlab, by more than .001."""
    return " and ".join(f"{row['data']} with targets {row['planted']}" for row in below_cleanlab("targets"))


def below_cleanlab(*kinds: str) -> list[dict[str, Any]]:
    """The rows of planted errors, of labels or targets, in which cleanlab is better by more than .001."""
    table = [row for kind in kinds for row in rows("audit", f"Average precision of planted wrong {kind}")]
    return [row for row in table if row["likely"] < row["cleanlab"] - 0.001]


def misses(file: str, *figures: str) -> str:
    """Those of the figures that miss their goals, in words."""
    chosen = [bar for bar in bars(file).values() if not figures or bar.name in figures]
    return "; ".join(f"{words(bar.name)} {bar.measured}, goal {bar.set_at}" for bar in chosen if bar.met is False)


def share_range(file: str, prefix: str) -> str:
    """From the lowest to the highest of the figures whose names begin so."""
    values = [bar.value for bar in bars(file).values() if bar.name.startswith(prefix)]
    return f"{short(min(values), 2)} to {short(max(values), 2)}"


def _robust() -> tuple[str, str, str, str]:
    cpu, gpu, exact = bars("losses"), bars("losses-h200"), bars("numerics")
    here = (
        f"normaliser included, exact to {exact['ρ, float64'].value:.0e}; "
        f"{cpu['CPU, ρ: faster than as published'].value:.0f} × faster than the published formulas in eager torch on a "
        f"CPU, {gpu['NVIDIA H200, ρ: faster than as published'].value:.0f} × on an H200"
    )
    bar = cpu["CPU, ρ: faster than as published"]
    return (
        "the robust loss ρ(α, σ)",
        here,
        "" if bar.met else f"the goal on a CPU was {bar.bar:.0f} ×",
        "losses numerics",
    )


def _temperature() -> tuple[str, str, str, str]:
    figure = bars("calibration")
    timed = dict.fromkeys(row["what"].split()[0] for row in rows("calibration", "50,000 × 1,000"))
    peers = " and ".join(name for name in timed if name != "likely")
    here = (
        f"one temperature fitted {figure['GS, faster than the fastest peer'].value:.0f} × faster than by the fastest "
        f"of {peers}, in {figure['GS, extra memory'].value:.0f} MB"
    )
    return "one temperature, wrapped around any classifier", here, misses("calibration"), "calibration"


def _composition() -> tuple[str, str, str, str]:
    figure = bars("composition")
    gain = figure["Auto, below probmetrics' best"].value
    count = len({row["network"] for row in rows("composition", "Test NLL by calibration rows")})
    here = (
        f"negative log-likelihood (NLL) lower by {short(gain)} on average over {count} networks, chosen automatically"
    )
    return "calibration with a low NLL", here, misses("composition"), "composition"


def _pyod() -> tuple[str, str, str, str]:
    auc, ap = (bars("outliers")[f"LikelihoodDetector, mean {measure}"] for measure in ("AUC", "AP"))
    names = [bar.case.removeprefix("the best rival is ") for bar in (auc, ap)]
    rival, best = (DETECTORS.get(name, name) for name in names)
    sets = len(rows("outliers", "AUC of every set"))
    here = (
        f"mean area under the ROC curve (AUC) {short(auc.value)} on {sets} sets of ODDS (Outlier Detection DataSets), "
        f"where the best rival, {rival}, has {short(auc.bar)}"
    )
    text = f"mean average precision (AP) {short(ap.value)}, where {best} has {short(ap.bar)}"
    (forest,) = [row for row in rows("outliers", "25 sets, fitted and scored") if row["detector"] == "IF"]
    tie = f"a tie with the isolation forest by Wilcoxon's test (p = {forest['p, AUC']:.2f} and {forest['p, AP']:.2f})"
    here, lost = (f"{here}; {text}", tie) if ap.met else (here, f"{text}; {tie}")
    return "50 and more outlier detectors", here, lost, "outliers"


def _cleanlab() -> tuple[str, str, str, str]:
    labels, targets = (bars("audit")[f"wrong {kind}, AP above cleanlab"] for kind in ("labels", "targets"))
    here = (
        f"average precision (AP) {short(labels.value)} against {short(labels.bar)} for labels, {short(targets.value)} "
        f"against {short(targets.bar)} for targets"
    )
    kinds = ("labels", "targets")
    cases = sum(len(rows("audit", f"Average precision of planted wrong {kind}")) for kind in kinds)
    below = len(below_cleanlab(*kinds))
    lost = [f"below cleanlab by more than .001 in {below} of {cases} cases"] if below else []
    mean_ap = bars("audit")["wrong targets, mean AP"]
    lost += [] if mean_ap.met else [f"the goal for targets was {short(mean_ap.bar, 2)}"]
    hints = share_range("slips", "slips in the columns")
    lost += [f"slips in columns get the right hint in {hints} of the cases, goal .9"] if misses("slips") else []
    return "wrong labels, for any model", here, "; ".join(lost), "audit slips"


def _linear() -> tuple[str, str, str, str]:
    figure = bars("linear")
    sparse = figure["the best of Multi Lasso and spike and slab, better than the oracle λ"].value
    worst = figure["automatic on real sets, error over the better peer's"]
    here = (
        f"{figure['Dynamic Ridge, faster than RidgeCV'].value:.2g} × faster than `RidgeCV` and "
        f"{figure['Dynamic Lasso, faster than LassoCV'].value:.2g} × faster than `LassoCV`, with errors at most "
        f"{worst.value:.3f} times theirs on real sets; sparse priors have "
        f"{short(1 / sparse, 1)} times the error of the best possible λ"
    )
    lost = figure["spike and slab below the transition, better than the oracle λ"]
    text = "" if lost.met else f"spike and slab beyond the lasso's phase transition ({lost.case})"
    return "ridge, lasso, robust fits", here, text, "linear"


def _ngboost() -> tuple[str, str, str, str]:
    figure = bars("networks")
    rank, time = figure["mean rank, beside NGBoost"], figure["time over NGBoost's"]
    sets = len(rows("networks", "Test NLL"))
    here = f"networks: mean rank by likelihood {rank.value:.1f} against {rank.bar:.1f} on {sets} sets"
    tie = "a deep ensemble has the same mean rank and takes less time"
    slower = f"takes up to {time.value:.1f} times as long; " if time.value > 1 else ""
    lost = slower + tie
    return "distributions for tables, by boosting", here, lost, "networks"


def _kernels() -> tuple[str, str, str, str]:
    def ratio(what: str) -> str:
        return short(bars("losses-h200")[f"NVIDIA H200, {what}"].value, 2)

    here = (
        f"on an H200, softmax over 32,000 and 128,256 classes takes {ratio('softmax 32000: the time of Liger')} and "
        f"{ratio('softmax 128256: the time of Liger')} of Liger's time with a temperature per row; the linear softmax "
        f"{ratio('linear softmax: the time of Liger, no temperature')} of Liger's and "
        f"{ratio('linear softmax: the time of cut-cross-entropy, no temperature')} of cut-cross-entropy's"
    )
    lost = misses("losses-h200", "NVIDIA H200, linear softmax: the time of its matrix products")
    return "cross-entropy of large vocabularies", here, lost.removeprefix("NVIDIA H200, "), "losses"


def extras_block() -> str:
    """The extras of the package, what each is for, and what it installs."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras: dict[str, list[str]] = tomllib.load(file)["project"]["optional-dependencies"]
    body = []
    for name, requirements in extras.items():
        packages = [requirement.split(">=")[0] for requirement in requirements]
        body.append([f"`{name}`", EXTRAS.get(name, ""), ", ".join(packages)])
    return markdown(["extra", "for", "installs"], body)


EXTRAS = {
    "plots": "the pictures of `likely.plots`",
    "data": "tables with names and categories",
    "arrow": "Parquet, Feather and Arrow files",
    "dask": "tables beyond memory, clusters",
    "cli": "the `likely` command, with reports",
    "gpu": "fused kernels on a GPU (PyTorch's CUDA builds include Triton)",
    "lightning": "Lightning",
    "transformers": "Hugging Face's `Trainer`, Accelerate",
    "torchmetrics": "torchmetrics",
    "mapie": "MAPIE",
    "onnx": "export to ONNX",
    "all": "everything above that most people want",
    "integrations": "all libraries of the integrations",
    "peers": "the libraries that benchmarks compare with",
    "docs": "building this site",
    "dev": "tests and checks",
}


DETECTORS = {"IF": "the isolation forest", "MCD": "the minimum covariance determinant"}
VERSUS: dict[str, Callable[[], tuple[str, str, str, str]]] = {
    "robust loss in eager torch": _robust,
    "scikit-learn's temperature": _temperature,
    "probmetrics": _composition,
    "PyOD": _pyod,
    "cleanlab": _cleanlab,
    "scikit-learn's linear models": _linear,
    "NGBoost": _ngboost,
    "Liger, cut-cross-entropy": _kernels,
}


def comparison_block() -> str:
    """What people use today beside what is here, ties and losses included."""
    return markdown(HEADER, list(comparison(rows, bars, machine)))


def ties_block() -> str:
    """The detectors of PyOD whose AUC does not differ significantly from that of the default."""
    table = rows("outliers", "25 sets, fitted and scored")
    names = [row["detector"] for row in table[1:] if row["p, AUC"] is not None and row["p, AUC"] > 0.05]
    names = [name for name in names if name not in ("ScatterDetector", "PCA+S", "AE+S")]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def best_block(file: str, caption: str, name: str, digits: str) -> str:
    """Our score over the best rival's on one set."""
    (row,) = [row for row in rows(file, caption) if row["set"].rstrip("*") == name]
    rivals = [value for key, value in row.items() if key not in ("set", "likely") and value is not None]
    return short(row["likely"] / min(rivals), int(digits))


def verdicts_block() -> str:
    """How many tables and figures of the paper hold, in words."""
    return counted([result(path.stem)["verdict"] for path in PAPER.glob("*.json")]) + "."


def versus_block(library: str) -> str:
    """What is measured beside a library, in a sentence or two, with its command."""
    _, here, lost, names = VERSUS[library]()
    missed = f" Misses: {lost}." if lost else ""
    return f"{here[0].upper()}{here[1:]}.{missed} (`python -m experiments.benchmarks {names}`)"


BLOCKS: dict[str, Callable[..., str]] = {
    "machine": machine,
    "bar": bar_block,
    "bound": bound_block,
    "bars": bars_block,
    "table": table_block,
    "losses": losses_block,
    "mean": mean_block,
    "composition": composition_block,
    "audit": audit_block,
    "networks": networks_block,
    "regressors": regressors_block,
    "noisy labels": noisy_block,
    "wine": wine_block,
    "letter": letter_block,
    "printed": printed_block,
    "below": below_block,
    "comparison": comparison_block,
    "best": best_block,
    "ties": ties_block,
    "versus": versus_block,
    "verdicts": verdicts_block,
    "extras": extras_block,
}


if __name__ == "__main__":
    for page in pages():
        old = page.read_text(encoding="utf-8")
        if (new := renewed(old)) != old:
            page.write_text(new, encoding="utf-8")
            print("rewritten:", page.relative_to(ROOT))
