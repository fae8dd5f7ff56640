"""Random strings and their substrings, for several test files."""

from collections import Counter

import numpy as np


def random_strings(seed: int, count: int, longest: int, alphabet: str = "ACGT") -> list[str]:
    """Strings of unequal lengths, repetitive ones among them."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, size=count)
    few = rng.integers(1, len(alphabet) + 1, size=count)
    return ["".join(rng.choice(list(alphabet)[:f], size=m)) for m, f in zip(lengths, few, strict=True)]


def substrings(s, length: int) -> Counter:
    return Counter(tuple(s[i : i + length]) for i in range(len(s) - length + 1))


def planted(seed: int) -> tuple[list[str], np.ndarray]:
    """Strings with one of two words in them."""
    rng = np.random.default_rng(seed)
    y = np.arange(60) % 2
    noise = ["".join(row) for row in rng.choice(list("ACGT"), size=(60, 20))]
    return [s[:8] + ("TATAAT", "GGCGCC")[c] + s[8:] for s, c in zip(noise, y, strict=True)], y
