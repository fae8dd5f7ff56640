"""Laws on spaces: what Gram matrices, gradients, products with vectors and features read."""
