"""Feature maps of kernels, and transformers that turn data into distributions."""

from mercer.features.distributions import GroupNormals, MeasuredNormals, Multinomials, split_groups
from mercer.features.gram import GramTransformer
from mercer.features.spectral import SpectralFeatures
from mercer.features.substrings import SubstringVectorizer

__all__ = [
    "GramTransformer",
    "GroupNormals",
    "MeasuredNormals",
    "Multinomials",
    "SpectralFeatures",
    "SubstringVectorizer",
    "split_groups",
]
