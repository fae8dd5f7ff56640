"""Pure mathematics: zonal series, expansions of heat kernels, hyperbolic space, sums over levels."""
