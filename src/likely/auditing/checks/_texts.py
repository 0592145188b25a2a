"""Columns of text: lengths, empty and damaged texts, mixed languages, and texts that are almost the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely._page import Table
from likely.auditing._columns import Columns
from likely.auditing._duplicates import ORDINARY
from likely.auditing._finding import Explained, Finding, Reason, worst_first
from likely.auditing._source import counted, listed
from likely.auditing.checks._scripts import LOST, language_of, misread, script_of
from likely.auditing.checks._text_copies import near_texts

_ROWS = 50_000  # texts that are compared with each other, and whose language is guessed
_SPACES = 2.0  # per text, on average: a column with fewer holds names
_FAR = 5.0  # deviations of the logarithm of the length
_TIMES = 5.0  # the length that one text in a hundred exceeds
_RARE = 0.05  # of the texts: a language, or a script, of more is one of the column's own
_LONG = 80  # signs of a text that are shown
_SURE = {"damaged": 0.99, "empty": 0.95, "script": 0.7, "language": 0.6, "length": 0.6, "copy": 0.9}
_FAR_OFF = {"damaged": 2.0, "empty": 1.0, "script": 1.0, "language": 1.0, "length": 1.0, "copy": 0.1}


class _Odd(NamedTuple):
    """What is odd about a text."""

    what: str
    column: str
    headline: str
    group: str
    shown: str
    expected: str = ""


def text_columns(columns: Columns) -> list[str]:
    """Name the columns that hold sentences."""
    names = []
    for name in columns.named("text", "identifier", "category"):
        present = columns.typed[name].dropna()
        if pd.api.types.is_numeric_dtype(present.dtype) or not len(present):
            continue
        some = present.iloc[:1_000]
        differ = columns.kinds[name] != "category" or some.nunique() > len(some) / 2
        if differ and np.mean([text.count(" ") for text in some]) > _SPACES:
            names.append(name)
    return names


def odd_texts(columns: Columns, leave_out: set[str]) -> Finding | None:
    """Report texts that are empty, damaged, in another language or script, of an odd length, or almost copies."""
    names = [name for name in text_columns(columns) if name not in leave_out]
    if not names:
        return None
    odd: dict[int, list[_Odd]] = defaultdict(list)
    lines, parts = {}, []
    for name in names:
        column = columns.typed[name]
        rows = np.flatnonzero(column.notna().to_numpy())
        texts = column.iloc[rows].tolist()
        for place, fault in _damaged(texts, name):
            odd[int(rows[place])].append(fault)
        for place, fault in _lengths(texts, name):
            odd[int(rows[place])].append(fault)
        languages, others = _languages(texts[:_ROWS], name)
        copies, sentence = _copies(texts[:_ROWS], rows, name)
        for place, fault in [*others, *copies]:
            odd[int(rows[place])].append(fault)
        parts += [sentence] if sentence else []
        length = np.array([len(text) for text in texts])
        low, middle, high = np.quantile(length, [0.05, 0.5, 0.95])
        lines[name] = {
            "signs": f"{middle:,.0f} ({low:,.0f} to {high:,.0f})",
            "written in": listed([f"{language} {share:.0%}" for language, share in languages.items()], most=3),
            "almost copies": len(copies),
        }
    frame = pd.DataFrame.from_dict(lines, orient="index").rename_axis("column")
    return _finding(odd, len(columns.typed), frame, parts)


def _finding(odd: dict[int, list[_Odd]], n: int, frame: pd.DataFrame, parts: list[str]) -> Finding:
    certainty = np.zeros(n)
    counts: dict[str, int] = defaultdict(int)
    for row, faults in odd.items():
        certainty[row] = max(_SURE[fault.what] for fault in faults)
        for what in {fault.what for fault in faults}:
            counts[what] += 1

    def explain(rows: NDArray[np.int64]) -> Iterator[Explained]:
        for row in rows:
            faults = sorted(odd[int(row)], key=lambda fault: -_SURE[fault.what])
            reasons = [Reason(fault.column, fault.shown, fault.expected, _SURE[fault.what]) for fault in faults]
            first = faults[0]
            wrong = first.what in ("damaged", "empty")
            yield Explained(first.headline, reasons, _FAR_OFF[first.what], wrong=wrong, group=first.group)

    words = {
        "damaged": "damaged by a wrong encoding",
        "empty": "empty",
        "script": "in another script than most",
        "language": "in another language than most",
        "length": "far longer or shorter than most",
        "copy": "almost the same as an earlier one",
    }
    clauses = [f"{counted(counts[what], 'text is', 'texts are')} {how}" for what, how in words.items() if counts[what]]
    sentence = (
        ", ".join(clauses) + "." if clauses else "No text is empty, damaged, or almost a copy of another."
    ) + "".join(f" {part}" for part in parts)
    return Finding(
        "texts",
        "Texts",
        sentence,
        numbers={"rows": len(odd), **{what: counts[what] for what in words}},
        tables=(
            Table(frame, "Columns of text: characters per text (median, and the range of 90%), languages, and copies."),
        ),
        **worst_first("texts", certainty, certainty > 0, explain, most=None),
    )


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return f"“{flat[:_LONG]}{'…' if len(flat) > _LONG else ''}”"


def _damaged(texts: list[str], name: str) -> Iterator[tuple[int, _Odd]]:
    """Empty texts, and those in which an encoding was mistaken for another."""
    for place, text in enumerate(texts):
        if not text or text.isspace():
            yield place, _Odd("empty", name, f"{name} is empty", f"{name} is empty", _short(text))
        elif text.isascii():
            continue
        elif LOST in text:
            group = f"{name} has characters that were lost when it was read"
            yield place, _Odd("damaged", name, f"{name} has lost {text.count(LOST)} characters", group, _short(text))
        elif (meant := misread(text)) is not None:
            start = max(0, next(i for i, (a, b) in enumerate(zip(text, meant, strict=False)) if a != b) - 20)
            group = f"{name} was UTF-8, and read as Windows-1252"
            headline = f"{name}: {_short(text[start : start + 40])} was {_short(meant[start : start + 40])}"
            yield place, _Odd("damaged", name, headline, group, _short(text), _short(meant))


def _lengths(texts: list[str], name: str) -> Iterator[tuple[int, _Odd]]:
    """Texts that are far longer or shorter than most."""
    size = np.array([len(text.strip()) for text in texts], np.float64)
    if (size > 0).sum() < 20:
        return
    low, first, middle, third, high = np.quantile(np.log(size[size > 0]), [0.05, 0.25, 0.5, 0.75, 0.95])
    deviation = max(float(third - first) / 1.35, 0.1)
    far = np.abs(np.log(np.maximum(size, 1)) - middle) / deviation
    shortest, longest = np.quantile(size[size > 0], [0.01, 0.99])
    beyond = (size > _TIMES * longest) | (size < shortest / _TIMES)
    for place in np.flatnonzero((size > 0) & ((far > _FAR) | beyond)):
        how = "longer" if np.log(size[place]) > middle else "shorter"
        expected = f"most have {np.exp(low):,.0f} to {np.exp(high):,.0f}"
        headline = f"{name} has {size[place]:,.0f} characters, {expected}"
        yield (
            int(place),
            _Odd("length", name, headline, f"{name} is far {how} than most", _short(texts[place]), expected),
        )


def _languages(texts: list[str], name: str) -> tuple[dict[str, float], list[tuple[int, _Odd]]]:
    """The share of each language or script, and the texts in a rare one."""
    scripts = np.array([script_of(text) for text in texts], dtype=object)
    languages: Any = np.array(
        [language_of(text) if script == "Latin" else script for text, script in zip(texts, scripts, strict=True)],
        dtype=object,
    )
    shares = pd.Series(languages[languages != ""]).value_counts(normalize=True)
    by_script = pd.Series(scripts[scripts != ""]).value_counts(normalize=True)
    odd = []
    for place, (language, script) in enumerate(zip(languages, scripts, strict=True)):
        if script and by_script[script] < _RARE:
            group = f"{name} is in {script} script, most are in {by_script.index[0]}"
            odd.append((place, _Odd("script", name, group, group, _short(texts[place]))))
        elif language and script == "Latin" and shares[language] < _RARE:
            group = f"{name} is in {language}, most are in {shares.index[0]}"
            odd.append((place, _Odd("language", name, group, group, _short(texts[place]))))
    return {str(language): float(share) for language, share in shares.items()}, odd


def _copies(texts: list[str], rows: NDArray[np.int64], name: str) -> tuple[list[tuple[int, _Odd]], str]:
    """Texts that almost equal an earlier one, unless that is ordinary here."""
    of, share = near_texts(texts)
    # Equal texts are copies of cells, and usual in a column; rows that are copies have their own finding.
    later = [int(place) for place in np.flatnonzero(of >= 0) if texts[place] != texts[of[place]]]
    if len(later) > ORDINARY * len(texts):
        return [], f"{len(later):,} values of {name} are almost equal to another: they seem to follow a pattern."
    copies = []
    for place in later:
        other = int(rows[of[place]])
        headline = f"{name} almost equals that of row {other} ({share[place]:.0%} of its pieces)"
        group = f"{name} almost equals that of another row"
        copies.append((place, _Odd("copy", name, headline, group, _short(texts[place]), _short(texts[of[place]]))))
    return copies, ""
