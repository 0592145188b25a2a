"""Nothing imports in a circle, hidden imports included; the floors of the house are import-linter's."""

import ast
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import likely

PACKAGE = Path(likely.__file__).parent
PUBLIC_ELSEWHERE = {"_replace", "_schema"}  # of named tuples and of torch's operators; we have such names too


def test_no_import_circle() -> None:
    grimp = pytest.importorskip("grimp")
    graph = grimp.build_graph("likely", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as circle:
        pytest.fail(f"these import each other: {' → '.join(circle.args[1])}")


def test_no_private_name_leaves_its_folder() -> None:
    defined: dict[str, set[str]] = defaultdict(set)
    used: list[tuple[str, str, str]] = []
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0]
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.FunctionDef(name) | ast.ClassDef(name) | ast.Name(name, ast.Store()):
                    defined[room].add(name)
                case ast.Attribute(_, name, ast.Store()):
                    defined[room].add(name)
                case ast.Attribute(_, name) if name.startswith("_") and not name.startswith("__"):
                    used.append((room, f"{path.name}:{node.lineno}", name))
    ours = set().union(*defined.values()) - PUBLIC_ELSEWHERE
    abroad = [use for use in used if use[2] in ours and use[2] not in defined[use[0]]]
    assert abroad == []
