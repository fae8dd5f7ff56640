"""Features at inducing points."""
