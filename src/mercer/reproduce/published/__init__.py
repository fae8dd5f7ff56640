"""Published experiments, one module each."""
