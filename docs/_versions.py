"""List the versions of the site for its switcher: `python docs/_versions.py FOLDER`.

FOLDER holds one built site per version, such as `stable`, `dev` and `0.1.0`; `versions.json` is written beside them.
"""

import json
import sys
from pathlib import Path

FIRST = ("stable", "dev")


def versions(site: Path) -> list[dict[str, str]]:
    """Every built site below the folder: `stable` and `dev` first, then the others, the newest first."""
    listed = {path.parent.name: release(path) for path in site.glob("*/objects.inv")}
    rest = sorted(listed.keys() - {*FIRST}, key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    names = {name: f"{listed[name]} ({name})" if name in FIRST else name for name in listed}
    return [{"folder": name, "name": names[name]} for name in (*FIRST, *rest) if name in listed]


def release(inventory: Path) -> str:
    """The version in the head of Sphinx's inventory."""
    head = inventory.read_bytes().split(b"\n", 4)[:3]
    return head[2].decode().removeprefix("# Version: ")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.joinpath("versions.json").write_text(json.dumps(versions(folder), indent=2) + "\n", encoding="utf-8")
