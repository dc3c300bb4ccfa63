"""The data folder of the judge's tests serves these as well."""

from tests.judge.conftest import home

__all__ = ["home"]
