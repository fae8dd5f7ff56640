"""The engine: profiles applied to tiled matrix products, on whatever holds the arrays."""
