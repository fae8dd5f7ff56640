"""Fused kernels of graphics processors; imported only when a tensor on one arrives."""
