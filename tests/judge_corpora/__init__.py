"""Corpora of kernels that prove the judge: correct ones it must accept, and wrong ones it must reject."""
