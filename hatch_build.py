"""Compiles the C++ of src/likely into the wheel, one library of each file for each generation of vector units.

Where there is no C++ compiler, or not one that supports GNU vectors, or where LIKELY_PURE=1 is set, the wheel is built
without it, for every platform, and likely computes the same numbers with torch's own operations. CXX, CXXFLAGS and
LDFLAGS are respected. By hand, in a checkout: python hatch_build.py
"""

import os
import platform
import re
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


def platform_tag() -> str:
    """The platform that libraries compiled here are for, as wheels spell it."""
    tag = re.sub(r"[-.]", "_", sysconfig.get_platform())
    # A Python for both kinds of Mac compiles for the one it runs on, of which the later kind began with macOS 11.
    return re.sub(r"macosx_10_\d+_arm64", "macosx_11_0_arm64", tag.replace("universal2", platform.machine()))


def compile_native() -> list[Path]:
    """The libraries that could be built."""
    on_intel = platform_tag().endswith(("x86_64", "amd64"))
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    # Flags of the environment come first, so that the vector units and the arithmetic are those named here.
    own, linked = (shlex.split(os.environ.get(name, "")) for name in ("CXXFLAGS", "LDFLAGS"))
    oldest_mac = sysconfig.get_config_var("MACOSX_DEPLOYMENT_TARGET")  # the one that the tag names
    environment = {"MACOSX_DEPLOYMENT_TARGET": str(oldest_mac), **os.environ} if oldest_mac else None
    built = []
    for source, (name, flags) in product(SOURCES, GENERATIONS.items()):
        library = source.with_name(f"{source.stem}-{name}.so")
        library.unlink(missing_ok=True)
        if flags and not on_intel:
            continue
        command = [*compiler, *own, *FLAGS.split(), *flags.split(), "-o", str(library), str(source), *linked, "-lm"]
        try:
            subprocess.run(command, check=True, capture_output=True, env=environment)
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
            pure = os.environ.get("LIKELY_PURE", "0") not in ("", "0")
            if self.target_name == "wheel" and not pure and (built := compile_native()):
                build_data["artifacts"] += [f"/{path.relative_to(Path(__file__).parent)}" for path in built]
                build_data["pure_python"] = False
                build_data["tag"] = f"py3-none-{platform_tag()}"


if __name__ == "__main__":
    print(*(path.name for path in compile_native()))
