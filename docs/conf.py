"""Configuration of the documentation; everything is built without a network."""

import warnings

import mercer

project = "Mercer"
author = "the Mercer authors"
copyright = author
version = release = mercer.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
]
exclude_patterns = ["_build", "gallery/README*", "gallery/GALLERY_HEADER*"]
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
# Types in docstrings are prose ("array of shape (m, n)"), not names to be looked up.
napoleon_use_param = False
napoleon_use_rtype = False
# References at the end of a docstring need not be cited in its text.
suppress_warnings = ["ref.footnote"]

html_theme = "furo"
html_title = f"Mercer {version}"
html_static_path = ["_static"]
html_css_files = ["mercer.css"]
html_show_sphinx = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "monokai"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "image_scrapers": ("matplotlib",),
    "min_reported_time": 3600,
}

# A figure shown without a window is what the gallery wants.
warnings.filterwarnings("ignore", message=".*non-interactive.*", category=UserWarning)


def _skip_scikit_learn(app, what, name, obj, skip, options):
    """Leave out inherited methods that scikit-learn documents, and those that it makes for routing."""
    routing = name.startswith("set_") and name.endswith("_request")
    return True if routing or str(getattr(obj, "__module__", "")).startswith("sklearn.") else None


def setup(app):
    """Hook into sphinx."""
    app.connect("autodoc-skip-member", _skip_scikit_learn)
