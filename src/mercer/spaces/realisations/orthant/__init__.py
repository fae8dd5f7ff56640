"""Laws on the positive orthant of a sphere, with a boundary that reflects or absorbs."""
