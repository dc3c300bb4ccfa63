"""Correct kernels with one small bug each, made automatically. The judge must reject them."""
