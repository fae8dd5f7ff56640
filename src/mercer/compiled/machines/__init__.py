"""Loops of support vector machines: their quadratic program, its certificate, and decision values."""
