"""A file from one of its addresses: resumed where it was interrupted, checked, and only then put in its place."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.data._sources import File
from likely._files import replacing

LOCK = "checksums.json"
CHUNK, ATTEMPTS, SECONDS = 1 << 20, 3, 60
BROKEN = (OSError, http.client.HTTPException)  # of the network, all of whose errors are one of these


class Interrupted(OSError):
    """The server ended before the file did."""


class AnotherFile(ValueError):
    """Its checksum is not the one that is published or pinned."""


def download(file: File, folder: Path) -> Path:
    """The file in the folder, from where it already is or from its addresses.

    A file whose checksum nobody has published is pinned: that of the first download is written to ``checksums.json``,
    and later ones must have the same.
    """
    path = folder / file.name
    if path.is_file():
        _check(path, path, file, f"{path} is not the published file: remove it, or get it again from {file.urls[0]}")
        return path
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{file.name}.partial"
    failures = []
    for url in file.urls:
        for _ in range(ATTEMPTS):
            try:
                _append(url, partial)
            except Interrupted as error:
                failures.append(f"{url}: {error}")
                continue  # from where it stopped
            except BROKEN as error:
                failures.append(f"{url}: {getattr(error, 'reason', None) or error}")
                break
            wrong = f"{url} has given a file that is not the published one; it was removed: try again, or look there"
            try:
                _check(partial, path, file, wrong)
            except AnotherFile:
                partial.unlink()
                raise
            os.replace(partial, path)
            return path
    begun = f" (begun: {partial.stat().st_size:,} bytes, kept to go on from)" if partial.exists() else ""
    raise FileNotFoundError(
        f"{path} is missing and could not be downloaded{begun}: get it from {file.urls[0]} and put it there. "
        f"Tried {'; '.join(dict.fromkeys(failures))}"
    )


def _append(url: str, partial: Path) -> None:
    """Write the rest of a file behind what is already there."""
    begun = partial.stat().st_size if partial.exists() else 0
    headers = {"User-Agent": "likely", **({"Range": f"bytes={begun}-"} if begun else {})}
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=SECONDS)
    except urllib.error.HTTPError as error:
        if error.code == 416 and begun:  # nothing is left to get, or the file is another one: the checksum will tell
            return
        raise
    with response:
        goes_on = response.status == 206
        length = response.headers.get("Content-Length")
        with partial.open("ab" if goes_on else "wb") as target:
            written = 0
            try:
                for block in iter(lambda: response.read(CHUNK), b""):
                    written += target.write(block)
            except (http.client.IncompleteRead, ConnectionError) as error:
                raise Interrupted(f"ended after {written:,} bytes: {error}") from None
        if length is not None and written < int(length):
            raise Interrupted(f"ended after {written:,} of {int(length):,} bytes")


def _check(path: Path, final: Path, file: File, otherwise: str) -> None:
    """Hold a file against its published checksum, else against the pinned one, else pin it."""
    kind, expected = ("md5", file.md5) if file.md5 and not file.sha256 else ("sha256", file.sha256)
    found = _digest(path, kind)
    lock = final.parent / LOCK
    if not expected:
        with _pinned(lock) as pinned:
            expected = pinned.setdefault(file.name, found)
    if found != expected:
        raise AnotherFile(f"{otherwise}. Its {kind} is {found}, not {expected}")


@contextmanager
def _pinned(lock: Path) -> Iterator[dict[str, str]]:
    """The checksums of first downloads, to add to."""
    try:
        pinned = json.loads(lock.read_text(encoding="utf-8")) if lock.exists() else {}
        before = dict(pinned)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{lock} is damaged ({error}): remove it, and the next download is pinned anew") from None
    yield pinned
    if pinned != before:
        with replacing(lock) as beside:
            beside.write_text(json.dumps(pinned, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _digest(path: Path, kind: str) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()
