"""Feature maps and transformers that take kernels where scikit-learn would not."""

from mercer.features.gram import GramTransformer
from mercer.features.spectral import SpectralFeatures
from mercer.features.substrings import SubstringVectorizer

__all__ = ["GramTransformer", "SpectralFeatures", "SubstringVectorizer"]
