"""Tensors between processes: shared blocks, how they lie in them, and what surrounds them."""
