"""Kernels between the nodes of a graph."""
