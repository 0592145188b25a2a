"""The one file that `likely calibrate` and `likely predict` write."""

from __future__ import annotations

from pathlib import Path

from likely._destination import keep_inputs, writable


def check_output(out: Path, inputs: dict[str, Path]) -> None:
    """Refuse, before any work, a file that is one of the inputs, or is a folder, or that cannot be written."""
    if not out.parent.is_dir():
        raise FileNotFoundError(f"the folder {out.parent} of --out does not exist")
    keep_inputs([out], inputs)
    if not out.exists() or out.is_file():  # else a pipe or a device, which is written to as it is
        with writable(out.parent):
            pass
