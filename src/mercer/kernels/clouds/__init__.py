"""Kernels between clouds: weighted point sets."""
