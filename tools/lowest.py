"""The lowest versions that pyproject.toml names, as constraints: `python tools/lowest.py cli`, extras as arguments."""

import re
import sys
import tomllib
from pathlib import Path


def requirements(project: dict, extras: list[str]) -> list[str]:
    """Those of the package and of the extras, and of the extras these name in turn."""
    found = list(project["dependencies"])
    for extra in extras:
        for requirement in project["optional-dependencies"][extra]:
            own = re.fullmatch(r"likely\[(.+)\]", requirement)
            found += requirements(project | {"dependencies": []}, own[1].split(",")) if own else [requirement]
    return found


def lowest(requirement: str) -> str:
    name, floor = re.fullmatch(r"([\w.-]+)>=([\w.]+)", requirement).groups()
    return f"{name}=={floor}"


if __name__ == "__main__":
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    print("\n".join(sorted({lowest(requirement) for requirement in requirements(project, sys.argv[1:])})))
