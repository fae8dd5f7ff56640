"""Clouds and graphs of tensors, on their device."""
