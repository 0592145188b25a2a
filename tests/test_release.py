"""What is published agrees with itself: metadata, citation, recipe, workflows and the build of wheels."""

import importlib.util
import re
import subprocess
import sysconfig
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import likely

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTION = re.compile(r"[\w.-]+/[\w./-]+@(v\d+|v\d+\.\d+\.\d+|release/v\d+)")


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def extras(requirements: list[str]) -> set[str]:
    """The extras of our own that requirements name."""
    return {extra for own in re.findall(r"^likely\[(.+)\]$", "\n".join(requirements), re.M) for extra in own.split(",")}


def floors(requirements: list[str]) -> dict[str, str]:
    matches = (re.match(r"([\w.-]+) ?>= ?([\w.]+)", requirement) for requirement in requirements)
    return {match[1]: match[2] for match in matches if match}


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_one_version_everywhere() -> None:
    version = likely.__version__
    assert str(read("CITATION.cff")["version"]) == version
    assert read("recipe/recipe.yaml")["context"]["version"] == version
    heading = re.search(r"^## .+$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert heading
    assert version in heading[0]


def test_one_license_by_its_spdx_name() -> None:
    assert PROJECT["license"] == read("CITATION.cff")["license"] == read("recipe/recipe.yaml")["about"]["license"]
    assert PROJECT["license"] == "Apache-2.0"
    assert not any(classifier.startswith("License") for classifier in PROJECT["classifiers"])  # PEP 639
    assert "Apache License" in (ROOT / "LICENSE").read_text()[:200]
    assert all((ROOT / name).is_file() for name in PROJECT["license-files"])


def test_the_package_is_typed() -> None:
    assert (ROOT / "src" / "likely" / "py.typed").is_file()
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_the_citation_has_what_the_format_requires() -> None:
    citation = read("CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["title"].split(":")[0] == PROJECT["name"]
    paper = citation["preferred-citation"]
    assert {"type", "title", "authors", "year"} <= set(paper)
    assert all({"given-names", "family-names"} <= set(author) for author in paper["authors"])
    assert paper["url"] == PROJECT["urls"]["Paper"]
    assert paper["doi"].endswith(paper["url"].rsplit("/", 1)[-1])


def test_extras_name_extras_that_exist() -> None:
    options = PROJECT["optional-dependencies"]
    assert set().union(*map(extras, options.values())) <= set(options)


def test_all_is_every_extra_but_for_other_frameworks_gpus_and_developers() -> None:
    options = PROJECT["optional-dependencies"]
    others = {"all", "integrations", "gpu", "dev", "docs", "peers"} | extras(options["integrations"])
    assert extras(options["all"]) == set(options) - others


def test_the_recipe_asks_for_what_the_package_asks_for() -> None:
    recipe = read("recipe/recipe.yaml")["requirements"]
    names = {"pytorch": "torch", "matplotlib-base": "matplotlib"}
    run, constraints = (
        {names.get(name, name): floor for name, floor in floors(recipe[key]).items()}
        for key in ("run", "run_constraints")
    )
    options = PROJECT["optional-dependencies"]
    assert run == floors(PROJECT["dependencies"])
    assert constraints == floors(options["cli"] + options["plots"] + options["data"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_targets_that_exist_with_the_least_rights(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    for step in steps(workflow):
        assert ACTION.fullmatch(step["uses"]) if "uses" in step else step["run"]
        for words in re.findall(r"\bmake\b([^\n|;&]*)", step.get("run", "")):
            assert {word for word in words.split() if "=" not in word and not word.startswith("-")} <= targets
    assert workflow["permissions"] == {"contents": "read"}
    assert {"group", "cancel-in-progress"} == set(workflow["concurrency"])
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"]
        assert ("permissions" in job) == (name in ("publish", "deploy"))
        needs = job.get("needs", [])
        assert set([needs] if isinstance(needs, str) else needs) <= set(workflow["jobs"])


def test_there_are_workflows_for_tests_docs_and_wheels() -> None:
    assert [path.stem for path in WORKFLOWS] == ["docs", "tests", "wheels"]


def test_every_python_that_is_named_is_tested() -> None:
    named = {c.rsplit(" ", 1)[-1] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)}
    assert PROJECT["requires-python"] == f">={min(named, key=lambda version: int(version.split('.')[1]))}"
    assert set(read(".github/workflows/tests.yml")["jobs"]["tests"]["strategy"]["matrix"]["python"]) == named
    assert set(read(".github/workflows/wheels.yml")["jobs"]["installed"]["strategy"]["matrix"]["python"]) == named


def test_publishing_needs_a_tag_every_wheel_and_no_password() -> None:
    text = (ROOT / ".github" / "workflows" / "wheels.yml").read_text()
    publish = yaml.safe_load(text)["jobs"]["publish"]
    assert "refs/tags/v" in publish["if"]
    assert set(publish["needs"]) == {"pure", "compiled", "installed"}
    assert publish["permissions"] == {"id-token": "write"}
    assert "secrets." not in text


def test_a_bug_report_asks_for_likely_info() -> None:
    form = read(".github/ISSUE_TEMPLATE/bug.yml")
    fields = {field["id"]: field for field in form["body"]}
    assert "python -m likely info" in fields["info"]["attributes"]["label"]
    assert all(field["validations"]["required"] for field in fields.values())


@pytest.fixture
def hatch_build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("reported", "machine", "tag"),
    [
        ("linux-x86_64", "x86_64", "linux_x86_64"),
        ("macosx-10.9-universal2", "arm64", "macosx_11_0_arm64"),
        ("macosx-10.13-universal2", "x86_64", "macosx_10_13_x86_64"),
        ("macosx-14.0-arm64", "arm64", "macosx_14_0_arm64"),
    ],
)
def test_a_wheel_is_for_the_processor_it_was_compiled_on(
    hatch_build: ModuleType, monkeypatch: pytest.MonkeyPatch, reported: str, machine: str, tag: str
) -> None:
    monkeypatch.setattr(sysconfig, "get_platform", lambda: reported)
    monkeypatch.setattr(hatch_build, "platform", SimpleNamespace(machine=lambda: machine))
    assert hatch_build.platform_tag() == tag


def test_flags_of_the_environment_do_not_override_ours(
    hatch_build: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(hatch_build, "SOURCES", [tmp_path / "kernel.cpp"])
    monkeypatch.setattr(hatch_build, "platform_tag", lambda: "linux_x86_64")
    monkeypatch.setattr(subprocess, "run", lambda command, **options: commands.append(command))
    monkeypatch.setenv("CXX", "ccache clang++")
    monkeypatch.setenv("CXXFLAGS", "-O1 -march=nocona")
    monkeypatch.setenv("LDFLAGS", "-Wl,--as-needed")
    built = hatch_build.compile_native()
    assert [library.name for library in built] == [f"kernel-{name}.so" for name in ("DEFAULT", "AVX2", "AVX512")]
    for command in commands:
        assert command[:4] == ["ccache", "clang++", "-O1", "-march=nocona"]
        assert command.index("-O3") > command.index("-O1")
        assert "-Wl,--as-needed" in command
    assert commands[1].index("-march=x86-64-v3") > commands[1].index("-march=nocona")


def test_a_release_is_refused_while_an_address_only_stands_for_another() -> None:
    placeholders = [name for name, address in PROJECT["urls"].items() if ".invalid/" in address]
    assert {"Repository", "Documentation", "Issues"} <= set(PROJECT["urls"])
    done = subprocess.run(["make", "-s", "addressed"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode != 0) == bool(placeholders)
    assert all(name in done.stdout for name in placeholders)
