"""Compiles the C++ of src/likely into the wheel, one library of each file for each generation of vector units.

Where there is no C++ compiler, or not one that knows GNU vectors, the wheel is built without it and likely computes
the same numbers with torch's own operations. By hand, in a checkout: python hatch_build.py
"""

import os
import platform
import shlex
import subprocess
import sys
import sysconfig
from itertools import product
from pathlib import Path

SOURCES = sorted(Path(__file__).parent.joinpath("src", "likely").rglob("*.cpp"))
FLAGS = (
    "-std=c++17 -O3 -shared -fPIC -fno-exceptions -fno-rtti -fno-math-errno -fno-trapping-math -ffp-contract=fast -w"
)
# The names are torch.backends.cpu.get_cpu_capability()'s.
GENERATIONS = {"DEFAULT": "", "AVX2": "-march=x86-64-v3", "AVX512": "-march=x86-64-v4"}


def compile_native() -> list[Path]:
    """The libraries that could be built."""
    on_intel = platform.machine().lower() in ("x86_64", "amd64")
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    built = []
    for source, (name, flags) in product(SOURCES, GENERATIONS.items()):
        library = source.with_name(f"{source.stem}-{name}.so")
        library.unlink(missing_ok=True)
        if flags and not on_intel:
            continue
        command = [*compiler, *FLAGS.split(), *flags.split(), "-o", str(library), str(source), "-lm"]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as problem:
            print(f"likely: {library.name} is left out: {problem}", file=sys.stderr)
        else:
            built.append(library)
    return built


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run by hand
    pass
else:

    class NativeBuildHook(BuildHookInterface):
        """Adds the libraries to a wheel, which then fits this platform and every Python version."""

        def initialize(self, version, build_data):
            """Called by hatchling before it packs the files."""
            if self.target_name == "wheel" and (built := compile_native()):
                build_data["artifacts"] += [f"/{path.relative_to(Path(__file__).parent)}" for path in built]
                build_data["pure_python"] = False
                tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
                build_data["tag"] = f"py3-none-{tag}"


if __name__ == "__main__":
    print(*(path.name for path in compile_native()))
