"""Laws on spaces, which provide Gram matrices, gradients, products with vectors and features."""
