"""Sphinx settings. Everything here works without a network, both to build and to read the pages."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
import warnings
from html import escape
from pathlib import Path

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT)]

import _benchmarks  # noqa: E402
import _likelihoods  # noqa: E402
import _paper  # noqa: E402
import _reference  # noqa: E402
import _which_loss  # noqa: E402
import _words  # noqa: E402

from experiments.benchmarks import _size_page  # noqa: E402
from experiments.entries.drawing import to_svg  # noqa: E402
from experiments.entries.parts_html import inline  # noqa: E402
from experiments.paper.grid import grid_figure  # noqa: E402
from likely._page.html import css_variables  # noqa: E402

project = "likely"
author = "The likely developers"
project_copyright = author
version = release = importlib.metadata.version("likely")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "substitution"]
myst_substitutions = {"release": release}
myst_heading_anchors = 3
exclude_patterns = ["_build", "_generated", "_templates"]

# The tables of docs/api, and those of the likelihoods, which `generate` writes: each name in them gets a page.
TABLES = [*sorted(str(path.relative_to(HERE)) for path in HERE.glob("api/*.md")), "_generated/likelihoods.md"]
templates_path = ["_templates"]
autosummary_generate = TABLES
autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
# Every name of ours that a page refers to must be there; others' pages are elsewhere, and types may be private.
nitpicky = True
# Files whose name begins with _, and the rooms of the audit, are not in the reference.
nitpick_ignore_regex = [(r"py:.*", r"(?!likely\b).*"), (r"py:class", r"likely\.((.*\.)?_.*|auditing\.\w+\..*)")]
python_maximum_signature_line_length = 88

html_theme = "furo"
# Links to the source of each page, once the repository has an address.
_repository = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]
if ".invalid" not in _repository:
    html_theme_options = {"source_repository": _repository, "source_branch": "main", "source_directory": "docs/"}
html_title = "likely"
html_static_path = ["_static"]
html_css_files = ["likely.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"
pygments_style = "default"
pygments_dark_style = "github-dark"

# Every example of the gallery runs here, once for each change of its script, two at a time. joblib replaces a worker
# that has grown, as every one does that imports torch, and warns of it.
warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "within_subsection_order": "_gallery.Order",
    "backreferences_dir": "_generated/backreferences",
    "doc_module": ("likely",),
    "reference_url": {"likely": None},
    "reset_modules": ("matplotlib", "_gallery.reset"),
    "abort_on_example_error": True,
    "parallel": 2,
    "capture_repr": (),
    "image_scrapers": ("_gallery.scrape",),
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": float("inf"),
}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# `\frac12` is good TeX, but docutils' converter wants `\frac{1}{2}`.
_TOKEN = r"\s*(\d|[A-Za-z]|\\[A-Za-z]+)"
_BARE_FRACTION = re.compile(rf"\\([td]?frac){_TOKEN}{_TOKEN}")
# An index of what stands before the formula, as in `coef`$_j$, is good TeX too.
_BARE_SCRIPT = re.compile(r"^\s*(?=[_^])")
# "log x" needs its thin space, "log(x)" does not.
_FUNCTION = re.compile(r"<mo>&ApplyFunction;</mo>(?!\s*(<mrow>)?\s*<mo[^>]*>\()")


def mathml(self, node: nodes.math | nodes.math_block) -> None:
    """Write a formula as MathML, which browsers show by themselves: no script, no download."""
    block = isinstance(node, nodes.math_block)
    source = node.astext()
    braced = _BARE_SCRIPT.sub("{}", _BARE_FRACTION.sub(r"\\\1{\2}{\3}", source))
    if block and ("\\\\" in braced or "&" in braced) and "\\begin" not in braced:
        braced = rf"\begin{{aligned}}{braced}\end{{aligned}}"
    try:
        self.body.append(_FUNCTION.sub(r"\g<0><mspace width='0.17em'/>", tex2mathml(braced, as_block=block)))
    except MathError as error:
        logging.getLogger(__name__).warning("math not understood: %s (%s)", source, error, location=node)
        self.body.append(f"<code>{escape(source)}</code>")
    raise nodes.SkipNode


def trim(app: Sphinx, doctree: nodes.document) -> None:
    """Drop the blank line that ends an example: doctest needs it, readers do not."""
    for block in doctree.findall(nodes.literal_block):
        if block.rawsource == block.astext():
            block.rawsource = block.rawsource.rstrip()
            block[:] = [nodes.Text(block.rawsource)]


COMMANDS = ("--help", "audit --help", "calibrate --help", "predict --help", "info --help")
EXPERIMENTS = [f"experiments.{name} --{what}" for name in ("paper", "benchmarks") for what in ("help", "list")]


def generate(app: Sphinx) -> None:
    """Write what the pages show of the package itself, so that none of it goes stale."""
    folder = HERE / "_generated"
    folder.mkdir(exist_ok=True)
    light, dark = css_variables(dark=False), css_variables(dark=True)
    folder.joinpath("grid.html").write_text(
        f"<style>\n.picture {{ {light} }}\n"
        f'body[data-theme="dark"] .picture {{ {dark} }}\n'
        f'@media (prefers-color-scheme: dark) {{ body:not([data-theme="light"]) .picture {{ {dark} }} }}\n'
        f'</style>\n<div class="picture">{inline(to_svg(grid_figure()), "grid")}</div>\n'
    )
    folder.joinpath("which-loss.html").write_text(_which_loss.picture())
    folder.joinpath("likelihoods.md").write_text(_likelihoods.page())
    folder.joinpath("losses.md").write_text(_likelihoods.losses())
    folder.joinpath("benchmarks.md").write_text(_benchmarks.page())
    folder.joinpath("loss-sizes.md").write_text(_size_page.page(_benchmarks.STORED))
    folder.joinpath("paper.md").write_text(_paper.page())
    environment = {**os.environ, "COLUMNS": "88", "NO_COLOR": "1", "TERM": "dumb"}
    likely = Path(sys.executable).with_name("likely")
    commands = {f"likely {words}": [likely, *words.split()] for words in COMMANDS}
    commands |= {words: [sys.executable, "-m", *words.split()] for words in EXPERIMENTS}
    for words, command in commands.items():
        options = {"env": environment, "cwd": ROOT, "capture_output": True, "text": True, "check": True}
        shown = subprocess.run(command, **options).stdout
        folder.joinpath(f"{words}.txt".replace(" ", "-")).write_text(shown.strip() + "\n")
    pages = _reference.pages([HERE / name for name in TABLES])
    app.config.autosummary_context = {"pages": pages}
    for stub in HERE.joinpath("api", "generated").glob("*.rst"):  # of a name that is gone
        if stub.stem not in pages:
            stub.unlink()


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", generate, priority=100)  # before the gallery, which changes matplotlib's look
    app.connect("source-read", _words.add_to_index)
    app.connect("doctree-read", trim)
    app.connect("autodoc-skip-member", _reference.skip)
    app.connect("autodoc-process-signature", _reference.shorten_signature)
    app.connect("autodoc-process-docstring", _reference.shorten_types, priority=900)  # after napoleon's
    app.connect("html-page-context", _reference.mend_backlinks)
    app.add_html_math_renderer("mathml", inline_renderers=(mathml, None), block_renderers=(mathml, None))
