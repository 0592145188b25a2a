"""The comparison of the README: one short row per job and rival, from the stored results, by a rule.

Every rival that was run has a row. A gain has a 95% interval over data sets where several are stored; if the interval
contains no difference, the row says "tie". A speed is that of the slowest and of the fastest machine that was used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from experiments.benchmarks.tabular import SOME_SECONDS
from experiments.paper._rule import Interval, mean, ratio

Rows = Callable[[str, str], list[dict[str, Any]]]
Figures = Callable[[str], dict[str, Any]]
Machine = Callable[[str], str]  # in words, that of a record
HEADER = ["job", "today", "here, by how much", "where not", "measured by"]


def gain(interval: Interval, digits: int) -> str:
    """A difference of which more is better, in words.

    >>> gain(Interval(0.2, 0.1, 0.3), 1), gain(Interval(0.2, -0.1, 0.5), 1), gain(Interval(-2, -3, -1), 0)
    ('gain 0.2 (0.1 to 0.3): better', 'gain 0.2 (−0.1 to 0.5): a tie', 'gain −2 (−3 to −1): worse')
    """
    return f"gain {interval.text(digits)}: {judged(interval.low > 0, interval.high < 0)}"


def quotient(ours: list[float], theirs: list[float], digits: int) -> str:
    """How many times as high our errors are, in words.

    >>> quotient([1.0, 2.0, 4.0], [2.0, 4.0, 8.0], 2)
    '0.50 times as high: better'
    >>> quotient([1.0, 2.0, 4.0], [1.0, 1.0, 8.0], 2)
    '1.00 (0.18 to 5.59) times as high: a tie'
    """
    interval = ratio(ours, theirs)
    return f"{interval.text(digits)} times as high: {judged(interval.high < 1, interval.low > 1)}"


def judged(better: bool, worse: bool) -> str:
    """The verdict of an interval; a tie if no difference lies in it."""
    return "better" if better else "worse" if worse else "a tie"


def comparison(rows: Rows, bars: Figures, machine: Machine) -> Iterator[list[str]]:
    """The rows of the table, in the order of the jobs."""
    yield from losses(bars, machine)
    yield from calibration(rows, machine)
    yield from linear(rows, bars, machine)
    yield from tables(rows)
    yield from forecasts(rows, bars)
    yield from outliers(rows)
    yield from labels(rows)
    yield from row_store(bars, machine)


def losses(bars: Figures, machine: Machine) -> Iterator[list[str]]:
    """Speed of the losses, on the slowest and on the fastest machine."""
    machines = {"losses-arm": "two ARM cores", "losses": machine("losses"), "losses-h200": "an H200"}
    for job, today, figure, by_hand in (
        ("robust loss ρ(α, σ)", "its published formulas in torch", "ρ: faster than as published", ", ρ"),
        ("normal loss with a scale", "`GaussianNLLLoss`", "normal: faster than GaussianNLLLoss", ""),
    ):
        times = {
            name: bars(file)[f"{'NVIDIA H200' if file.endswith('h200') else 'CPU'}, {figure}"].value
            for file, name in machines.items()
        }
        slow, fast = min(times, key=times.__getitem__), max(times, key=times.__getitem__)
        text = f"{times[slow]:.0f} × faster on {slow}, {times[fast]:.0f} × on {fast}"
        compiled = bars("losses-h200")[f"NVIDIA H200, device, compiled{by_hand}: the time by hand"].value
        lost = f"under `torch.compile`, takes up to {compiled:.1f} times as long as a loss by hand"
        yield [job, today, text, lost, "`losses`"]
    gpu = {name.removeprefix("NVIDIA H200, "): bar.value for name, bar in bars("losses-h200").items()}
    small, large = (f"{gpu[f'softmax {count}: the time of Liger']:.2f}" for count in (32000, 128256))
    yield [
        "cross-entropy of large vocabularies",
        "Liger",
        f"{small} to {large} of its time, with a temperature per row "
        f"(linear softmax: {gpu['linear softmax: the time of Liger, no temperature']:.2f})",
        "H200 only",
        "`losses`",
    ]
    rest = f"{gpu['linear softmax: the time of cut-cross-entropy, no temperature']:.2f} of its time"
    yield ["linear softmax", "cut-cross-entropy", rest, "H200 only", "`losses`"]  # fmt: skip


def calibration(rows: Rows, machine: Machine) -> Iterator[list[str]]:
    """One temperature by time, and the best of several methods by likelihood."""
    table = {row["what"]: row for row in rows("calibration", "50,000 × 1,000")}
    ours = table["likely GlobalTemperature"]
    for name in ("scikit-learn", "probmetrics"):
        row = table[f"{name} temperature"]
        spread = f"± {row['spread'] / ours['seconds']:.1f}" if row["runs"] > 1 else "timed once"
        text = f"{row['seconds'] / ours['seconds']:.1f} × faster ({spread}), {machine('calibration')}"
        yield ["one temperature", name, text, "one size: 50,000 × 1,000 logits", "`calibration`"]
    by_network: dict[str, list[float]] = {}
    for row in rows("composition", "Test NLL by calibration rows"):
        if row["Auto"] is not None and row["probmetrics SMS"] is not None:
            by_network.setdefault(row["network"], []).append(row["probmetrics SMS"] - row["Auto"])
    found = mean([sum(values) / len(values) for values in by_network.values()])
    text = f"NLL {gain(found, 4)}, {len(by_network)} networks"
    yield ["calibrated probabilities", "probmetrics, its best", text, "ECE was not compared", "`composition`"]


def linear(rows: Rows, bars: Figures, machine: Machine) -> Iterator[list[str]]:
    """Test errors on real sets, and times."""
    table, figures = rows("linear", "Test error"), bars("linear")
    for name, ours in (("RidgeCV", "Dynamic Ridge"), ("LassoCV", "Dynamic Lasso")):
        times = f"at least {figures[f'{ours}, faster than {name}'].value:.2g} × faster"
        error = quotient([row[ours] for row in table], [row[name] for row in table], 3)
        text = f"{times}; error {error}, {len(table)} sets"
        yield ["regularised linear models", f"`{name}`", text, f"{machine('linear')} only", "`linear`"]
    case = figures["robust regression, error over the best peer's"].case
    worst = re.sub(r"^d (\d+), Y (\d+%)$", r"columns \1, wrong targets \2", case)
    robust = figures["robust regression, error over the best peer's"].value
    time = figures["robust regression, time over RANSAC's"].value
    text = f"error at most {robust:.2f} times that of the best peer, in {time:.2f} of RANSAC's time"
    yield ["robust lines", "Huber, RANSAC, Theil-Sen, Tukey", text, f"worst case: {worst}", "`linear`"]


def tables(rows: Rows) -> Iterator[list[str]]:
    """Scores of the estimators for tables over a rival's, on tables that no default was chosen on where there are some.

    A rival's time is compared only if it was measured on the same machine.
    """
    parts = {
        "CRPS": ("Numbers: CRPS", "Frames: CRPS"),
        "log-loss": ("Classes: log-loss", "Classes of frames: log-loss"),
    }
    seconds = {row["set"]: row for row in rows("tabular", "CPU seconds")}
    settings = {"AutoGluon": "best quality in ten times our time", "RealMLP": "five folds"}
    for name in ("AutoGluon", "RealMLP", "LightGBM", "XGBoost", "CatBoost", "NGBoost"):
        texts, lost = [], []
        for measure, captions in parts.items():
            found = [row for caption in captions for row in rows("tabular", caption) if row.get(name) is not None]
            new = [row for row in found if not row["set"].endswith("*")]
            table = new if len(new) >= 5 else found
            if not table:
                continue
            lost += [f"{measure}: our defaults were chosen on other splits of these tables"] if table is found else []
            score = quotient([row["likely"] for row in table], [row[name] for row in table], 2)
            lower = sum(row["likely"] < row[name] for row in table)
            texts.append(f"{measure} {score}, lower on {lower} of {len(table)} tables")
            worst = max(table, key=lambda row: row["likely"] / row[name])
            if worst["likely"] > worst[name]:
                lost.append(
                    f"{measure} {worst['likely'] / worst[name]:.2f} times as high on {worst['set'].rstrip('*')}"
                )
        if name in ("LightGBM", "XGBoost", "AutoGluon"):
            times = [(row["likely"] / row[name], row[name]) for row in seconds.values() if row.get(name) is not None]
            typical = median(time for time, _ in times)
            if typical < 1:
                texts.append(f"takes {typical:.2f} of its time (median)")
            else:
                slow = median(time for time, own in times if own >= SOME_SECONDS)
                long = f"where {name} takes {SOME_SECONDS:g} s and more"
                lost.append(f"takes {typical:.1f} times as long (median; {slow:.1f} {long})")
        yield ["tables", f"{name}, {settings.get(name, 'defaults')}", "; ".join(texts), "; ".join(lost), "`tabular`"]


def forecasts(rows: Rows, bars: Figures) -> Iterator[list[str]]:
    """Likelihood of networks for tables, and their time."""
    nll, seconds = rows("networks", "Test NLL"), rows("networks", "CPU seconds")
    for name in ("NGBoost", "deep ensemble", "scikit-learn MLP"):
        found = mean([row[name] - row["default"] for row in nll])
        own = bars("networks").get(f"time over {name}'s")  # a figure of its own, where there is one
        slowest = own.value if own else max(1 / row[name] for row in seconds)
        time = f"takes up to {slowest:.1f} times as long" if slowest > 1 else ""
        lower = sum(row["default"] < row[name] for row in nll)
        text = f"NLL {gain(found, 2)}, lower on {lower} of {len(nll)} sets"
        yield ["distributions for tables", name, text, time, "`networks`"]


def outliers(rows: Rows) -> Iterator[list[str]]:
    """Every detector of PyOD that was run: those it ties with by Wilcoxon's test, and those it beats."""
    table = rows("outliers", "25 sets, fitted and scored")
    ours = table[0]
    rivals = [row for row in table[1:] if row["detector"] not in ("ScatterDetector", "PCA+S", "AE+S")]
    best = max(rivals, key=lambda row: row["mean AUC"])
    ties = [row["detector"] for row in rivals if row["p, AUC"] > 0.05]
    kind = "a tie" if best["detector"] in ties else "better"
    text = (
        f"{kind}: AUC {ours['mean AUC']:.3f} against {best['mean AUC']:.3f} (p = {best['p, AUC']:.2f}), AP "
        f"{ours['mean AP']:.3f} against {best['mean AP']:.3f} (p = {best['p, AP']:.2f})"
    )
    yield ["outliers, 25 sets", f"PyOD: {best['detector']}, its best", text, "", "`outliers`"]
    others = [row for row in rivals if row["detector"] not in ties]
    worst, nearest = min(row["mean AUC"] for row in others), max(row["mean AUC"] for row in others)
    text = f"better: AUC {ours['mean AUC']:.3f} against {worst:.3f} to {nearest:.3f} (p < .05 each)"
    names = [row["detector"] for row in others]
    yield ["outliers, 25 sets", f"PyOD: {', '.join(names)}", text, f"ties: {', '.join(ties)}", "`outliers`"]


def labels(rows: Rows) -> Iterator[list[str]]:
    """Planted errors in labels and in targets."""
    for kind in ("labels", "targets"):
        table = rows("audit", f"Average precision of planted wrong {kind}")
        found = mean([row["likely"] - row["cleanlab"] for row in table])
        below = sum(row["likely"] < row["cleanlab"] - 0.001 for row in table)
        text = f"average precision {gain(found, 4 if kind == 'labels' else 3)}, {len(table)} cases"
        yield [
            f"wrong {kind}",
            "cleanlab",
            text,
            f"lower by more than .001 in {below} of {len(table)} cases",
            "`audit`",
        ]


def row_store(bars: Figures, machine: Machine) -> Iterator[list[str]]:
    """Updates of data parameters."""
    figures, other = bars("tables"), bars("tables-h200")
    for name in ("dense Adam", "SparseAdam"):
        bar = figures[f"CPU, faster than {name}"]
        text = f"{bar.value:.1f} × faster (± {bar.spread:.1f}), {machine('tables')}"
        lost = f"only {other[f'CPU, faster than {name}'].value:.1f} × faster with a small table on 16 Xeon cores"
        yield ["a parameter per row, 1.3 million rows", name, text, lost, "`tables`"]
