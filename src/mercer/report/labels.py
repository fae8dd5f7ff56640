"""Names of classes that fit into a figure and still distinguish the classes."""

from __future__ import annotations


def clip(name: str, most: int) -> str:
    """A name shortened to ``most`` characters; both ends stay, because names often differ at the end."""
    if len(name) <= most:
        return name
    first = -(-most // 2)
    return f"{name[:first]}…{name[first + 1 - most :]}"


def short_names(names: list[str], most: int = 24) -> list[str]:
    """Clipped names, all different: reduced to the parts that differ, or numbered."""
    clipped = [clip(name, most) for name in names]
    if len(set(clipped)) == len(names):
        return clipped
    head = _in_common(names)
    tail = _in_common([name[head:][::-1] for name in names])
    cores = [f"…{name[head : len(name) - tail]}{'…' if tail else ''}" for name in names]
    clipped = [clip(core, most) for core in cores]
    if len(set(clipped)) == len(names):
        return clipped
    return [f"{i}: {clip(name, most - 5)}" for i, name in enumerate(clipped, start=1)]


def _in_common(names: list[str]) -> int:
    """Number of characters with which all names begin."""
    first, last = min(names), max(names)
    same = (a == b for a, b in zip(first, last, strict=False))
    return next((i for i, equal in enumerate(same) if not equal), len(first))
