"""Memory that is available to this process."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

_PROCESS = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")


def size_text(size: float) -> str:
    """A number of bytes with three digits, in a suitable unit.

    Examples
    --------
    >>> [size_text(size) for size in (17.0, 3.2e5, 28.8e9, 3.2e13)]
    ['17 B', '320 kB', '28.8 GB', '32 TB']
    """
    units = ["B", "kB", "MB", "GB", "TB", "PB"]
    while size >= 999.5 and len(units) > 1:
        size /= 1000
        del units[0]
    return f"{size:.3g} {units[0]}"


def available() -> float:
    """Bytes that this process can still allocate, on the machine and within its limits."""
    return max(0.0, min(_of_machine(), _of_groups(), _of_process()))


def _of_machine() -> float:
    try:
        for line in (_PROCESS / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
    except OSError:
        pass
    try:  # without /proc: all that is built in
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return math.inf


def _of_groups() -> float:
    """Memory left in the tightest control group, which containers and batch systems set."""
    least = math.inf
    for folder, limit, usage, cache in _groups():
        try:
            total = int((folder / limit).read_text())
            used = int((folder / usage).read_text())
            kept = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):  # none, or "max"
            continue
        # Cached pages of files are released on demand.
        least = min(least, total - used + int(kept.get(cache, 0)))
    return least


def _groups() -> Iterator[tuple[Path, str, str, str]]:
    """Folders of the process's memory groups, up to the root, and the names of the files in them."""
    try:
        lines = (_PROCESS / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            root, names = _GROUPS, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            root = _GROUPS / "memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        folder = root / path.lstrip("/")
        for parent in (folder, *folder.parents):
            yield parent, *names
            if parent == root:
                break


def _of_process() -> float:
    """Address space left under the limit of the process."""
    if resource is None:
        return math.inf
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return math.inf
    try:
        pages = int((_PROCESS / "self" / "statm").read_text().split()[0])
    except (OSError, ValueError):
        pages = 0
    return float(limit - pages * resource.getpagesize())
