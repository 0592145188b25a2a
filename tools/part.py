"""The tests of a part of the package and of what imports it: `python tools/part.py outliers`."""

import sys
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
# Parts whose tests lie in other folders too, or in these alone.
WITH = {
    "likelihoods": ("distributions", "losses"),
    "functional": ("distributions", "losses"),
    "indexed": ("losses",),
    **dict.fromkeys(("parameters", "optim", "constraints", "paper"), ("parameters", "losses")),
}


def dependents(part: str) -> set[str]:
    """The parts of which a module imports one of this part."""
    graph = grimp.build_graph("likely", cache_dir=None)
    own = {module for module in graph.modules if f"{module}.".startswith(f"likely.{part}.")}
    if not own:
        parts = sorted({module.split(".")[1] for module in graph.modules if "." in module})
        sys.exit(f"likely has no part {part}: there are {', '.join(parts)}")
    importers = {module for one in own for module in graph.find_modules_that_directly_import(one)}
    return {module.split(".")[1] for module in importers - own if "." in module}


def tests(part: str) -> list[Path]:
    """The folder of its tests, and its own examples."""
    names = WITH.get(part, (part.strip("_"),))
    folders = (*(ROOT / "tests" / name for name in names), ROOT / "src" / "likely" / part)
    return [folder for folder in folders if folder.is_dir()]


if __name__ == "__main__":
    [part] = sys.argv[1:]
    found = {folder for one in {part} | dependents(part) for folder in tests(one)}
    print(*sorted(str(folder.relative_to(ROOT)) for folder in found))
