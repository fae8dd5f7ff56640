"""Every compiled loop of the package, in one place.

The functions are compiled by numba on first use, cached on disk, and release the GIL: callers run
them from ordinary threads.  The modules are imported inside functions only, so that ``import mercer``
does not load numba.
"""
