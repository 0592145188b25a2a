"""What somebody has looked at before, and found to be fine: an audit after it shows only what is new."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from likely._typing import FilePath
from likely.auditing.results.finding import Finding, Suspect, cell_text, without_rows

VERSION = 1
Earlier = FilePath | Mapping[str, Any]  # a file of findings, or its content


@dataclass(frozen=True)
class Accepted:
    """Findings that are no news: of single rows, told by what the row holds, and of groups, told by their problem.

    A row that holds the same values is the same row, wherever it stands. Where rows have names (``--id-column``), a row
    of the same name is the same if the value that was questioned is. Each of ``signs`` begins with a kind of problem
    and "key", "id" or "group".
    """

    signs: frozenset[tuple[str, ...]] = frozenset()

    @classmethod
    def read(cls, source: Earlier | None, what: str) -> Accepted:
        """Read the file that a page saves, or the summary of an earlier audit, or the content of either."""
        if source is None:
            return cls()
        content, name = (source, what) if isinstance(source, Mapping) else (_load(Path(source), what), str(source))
        try:
            if not isinstance(content.get("fine"), list):
                return cls(frozenset(_signs(mark for entry in content["entries"] for mark in entry["marks"])))
            if content.get("version") != VERSION:
                raise ValueError(f"{name} was written by another version of likely: mark the findings as fine again")
            return cls(frozenset(_signs(content["fine"])))
        except (KeyError, TypeError, AttributeError):
            raise ValueError(
                f"{name} is not a file of findings: give summary.json of an earlier audit, or what a page saved"
            ) from None

    def __or__(self, other: Accepted) -> Accepted:
        return Accepted(self.signs | other.signs)

    def marks(self) -> list[dict[str, str]]:
        """What a file that is read again holds."""
        return [{"kind": kind, what: text} for kind, what, text, *_ in sorted(self.signs) if what != "id"]

    def strip(self, finding: Finding, names: RowNames) -> Finding:
        """The finding without what is known."""
        if not len(finding.rows) or not self.signs:
            return finding
        keys = zip(finding.rows.tolist(), names.keys(finding.rows), strict=True)
        seen = {row for row, key in keys if (finding.name, "key", key) in self.signs}
        for own in finding.suspects:
            if self.signs & {(own.kind, "group", own.group), (own.kind, "id", names.name(own.row), questioned(own))}:
                seen.add(own.row)
        left = without_rows(finding, seen)
        return replace(left, known=len(finding.rows) - len(left.rows))


def _signs(marks: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    for mark in marks:
        kind = str(mark["kind"])
        if "key" in mark:
            yield kind, "key", str(mark["key"])
        elif mark["group"]:
            yield kind, "group", str(mark["group"])
        if "id" in mark:
            yield kind, "id", str(mark["id"]), str(mark["value"])


@dataclass(frozen=True)
class RowNames:
    """How rows are told from each other: by a column that names them, and by what they hold.

    The index of ``values`` is the place of each row in the table.
    """

    values: pd.DataFrame | None
    id: str | None = None

    def called(self, row: int) -> str:
        """A row by its name, and by its place if it has none, or shares it with others."""
        if self._column is None or pd.isna(self._column.at[row]):
            return f"row {row}"
        place = f" (row {row})" if self.shared.at[row] else ""
        return f"{self.id} {self.written(row)}{place}"

    def name(self, row: int) -> str | None:
        """The name of a row, if rows have names, and no other row has the same."""
        return None if self._column is None or self.shared.at[row] else self.written(row)

    def written(self, row: int) -> str:
        """What stands in the column of names."""
        return "" if self._column is None else cell_text(self._column.at[row])

    @cached_property
    def shared(self) -> pd.Series[bool]:
        """Of each row, whether its name is missing or is that of another row as well."""
        if self._column is None:
            return pd.Series(dtype=bool)
        return self._column.isna() | self._column.astype(str).duplicated(keep=False)

    @cached_property
    def _column(self) -> pd.Series[Any] | None:
        """The column of names; to look it up in a frame takes long where there are many rows."""
        return None if self.id is None or self.values is None else self.values[self.id].astype(object)

    def keys(self, rows: Any) -> list[str]:
        """A short text per row that follows from what the row holds, whatever the type and the order of its columns.

        >>> ints, floats = pd.DataFrame({"a": [3, 4], "b": ["x", "y"]}), pd.DataFrame({"b": ["y"], "a": [4.0]})
        >>> RowNames(ints).keys([1]) == RowNames(floats).keys([0])
        True
        """
        if self.values is None:
            return [f"row {row}" for row in rows]
        table = self.values.loc[list(rows)]
        texts = [[cell_text(value) for value in table[name].tolist()] for name in sorted(table.columns, key=str)]
        wholes = (repr(whole).encode(errors="surrogatepass") for whole in zip(*texts, strict=True))
        return [hashlib.blake2b(whole, digest_size=8).hexdigest() for whole in wholes]

    def mark(self, suspect: Suspect, key: str) -> dict[str, str]:
        """What has to be kept of a finding to know it again."""
        name = self.name(suspect.row)
        named = {} if name is None else {"id": name, "value": questioned(suspect)}
        return {"kind": suspect.kind, "key": key} | named


def questioned(suspect: Suspect) -> str:
    """The value that the first reason is about."""
    return suspect.reasons[0].value if suspect.reasons else ""


def _load(path: Path, what: str) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{what}: {path} cannot be read as JSON: {error}") from None
    return content if isinstance(content, Mapping) else {}
