"""Experiments of the papers, on their data."""
