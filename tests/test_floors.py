"""Nothing imports in a circle, hidden imports included; the floors of the house are import-linter's."""

from graphlib import CycleError, TopologicalSorter

import pytest


def test_no_import_circle() -> None:
    grimp = pytest.importorskip("grimp")
    graph = grimp.build_graph("likely", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as circle:
        pytest.fail(f"these import each other: {' → '.join(circle.args[1])}")
