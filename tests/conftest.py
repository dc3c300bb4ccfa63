"""Settings of every test: no test asserts a duration, hypothesis' deadline included."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")
