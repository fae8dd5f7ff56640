"""Measurements of speed and memory; run with ``make bench``."""
