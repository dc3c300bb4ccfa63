"""The judge: is a kernel right, and how fast? ``judge.py`` and what lies beside it ask; each room is a part of the answer.

``oracle`` knows what is right, ``worker`` is the candidate's side, ``timing`` lets it take turns with the baseline, ``whose`` tells its
work from a library's; ``processes`` and ``memory`` keep them apart.
"""
