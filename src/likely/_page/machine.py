"""What a result was made with: versions, hardware, and optional libraries that are installed."""

import os
import platform
import re
from importlib import metadata
from pathlib import Path

LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn")
DEVELOPMENT = "dev|docs|peers"  # extras that are not for users


def versions() -> dict[str, str]:
    """Versions of likely, Python and the libraries that decide the numbers, without importing any of them."""
    installed = {library: version(library) or "not installed" for library in ("likely", *LIBRARIES)}
    return {"likely": installed.pop("likely"), "python": platform.python_version(), **installed}


def machine() -> dict[str, str | int]:
    """Processor, cores, memory and, where there is one, the GPU."""
    described: dict[str, str | int] = {"cpu": _cpu(), "cores": _cores()}
    if memory := _memory():
        described["memory"] = f"{memory / 2**30:.0f} GiB"
    described["system"] = f"{platform.system()} {platform.machine()}"
    if gpu := _gpu():
        described["gpu"] = gpu
    return described


def libraries() -> dict[str, str]:
    """Versions of the installed libraries that extras for users ask for; none where the package is not installed."""
    try:
        requirements = metadata.requires("likely") or []
    except metadata.PackageNotFoundError:
        return {}
    for_users = [text for text in requirements if not re.search(rf"extra\s*==\s*['\"]({DEVELOPMENT})['\"]", text)]
    names = {name[0] for text in for_users if (name := re.match(r"[\w.-]+", text))} - {"likely", *LIBRARIES}
    return {name: installed for name in sorted(names) if (installed := version(name))}


def version(distribution: str) -> str | None:
    """The version of a distribution, or None where it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _cpu() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        model_line = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(errors="replace"), flags=re.MULTILINE)
        if model_line:
            return model_line.group(1).strip()
    return platform.processor() or platform.machine()


def _cores() -> int:
    """The cores this process may use, which in a container can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _gpu() -> str | None:
    if version("torch") is None:
        return None
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None
