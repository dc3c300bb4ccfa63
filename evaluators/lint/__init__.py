"""Spec lint: what is wrong with a specification, found before any budget is spent on it."""
