"""Data only, found through ``importlib.resources.files("corpora")``.

A regular package: a namespace package that is installed editable has entries that are no folders, and
``files`` fails on them.
"""
