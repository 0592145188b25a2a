"""What a bug report needs: versions, hardware, kernels and settings, for `likely info`.

Nothing here may fail or open a connection: what cannot be determined is reported as the error that prevented it. Needs
no extra, so that ``python -m likely info`` works in every install.
"""

import json
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path

from likely._page.machine import libraries, machine, version, versions

Section = Mapping[str, object]

# Variables besides our own that change speed or numbers. LIKELY_DATA is a path, read by the experiments only.
VARIABLES = {
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "CUBLAS_WORKSPACE_CONFIG"),
    *("PYTORCH_ENABLE_MPS_FALLBACK", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE", "TRITON_INTERPRET"),
}
SOURCES = ("_kernels/location", "_kernels/softmax", "_kernels/head", "row_store/rule")
ABSENT = "absent: torch's operations are used"


def report() -> dict[str, Section]:
    """All sections, in the order in which they are printed."""
    sections: dict[str, Callable[[], Section]] = {
        "versions": versions,
        "machine": _hardware,
        "torch": _torch,
        "kernels": _kernels,
        "libraries": libraries,
        "environment": _environment,
    }
    return {name: _attempt(section) for name, section in sections.items()}


def shown(as_json: bool) -> str:
    """The report as text to copy, or as JSON."""
    about = report()
    return json.dumps(about, indent=1, ensure_ascii=False) if as_json else _text(about)


def _text(about: Mapping[str, Section]) -> str:
    r"""Sections as indented lines.

    >>> print(_text({"versions": {"likely": "0.1.0"}, "environment": {}}))
    versions
      likely           0.1.0
    environment
      (none)
    """
    lines = []
    for heading, values in about.items():
        lines.append(heading)
        lines += [f"  {name:<19}{value}" for name, value in values.items()] or ["  (none)"]
    return "\n".join(lines)


def _attempt(section: Callable[[], Section]) -> Section:
    """The section, or the error that prevented it in one line."""
    try:
        return section()
    except Exception as error:  # a broken install is what reports are about
        return {"error": " ".join(f"{type(error).__name__}: {error}".split())}


def _hardware() -> Section:
    return {**machine(), "platform": platform.platform(), "interpreter": platform.python_implementation()}


def _torch() -> Section:
    import torch

    described: dict[str, object] = {
        "version": str(torch.__version__),
        "CUDA": torch.version.cuda or getattr(torch.version, "hip", None) or "none",
        "vector units": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
    }
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            device = torch.cuda.get_device_properties(number)
            memory = f"{device.total_memory / 2**30:.0f} GiB"
            described[f"cuda:{number}"] = f"{device.name}, {memory}, compute capability {device.major}.{device.minor}"
    else:
        described["cuda"] = "no device"
    if torch.backends.mps.is_available():
        described["mps"] = "available"
    return described


def _kernels() -> Section:
    """The compiled library in use for each C++ file, and Triton's version."""
    from likely._native import load

    loaded = {source: load(source) for source in SOURCES}
    files = {source: ABSENT if library is None else Path(library._name).name for source, library in loaded.items()}
    return {**files, "triton": version("triton") or ABSENT}


def _environment() -> Section:
    """Our variables and those of `VARIABLES` that are set."""
    names = {name for name in os.environ if name.startswith("LIKELY_")} | (VARIABLES & set(os.environ))
    return {name: os.environ[name] for name in sorted(names - {"LIKELY_DATA"})}
