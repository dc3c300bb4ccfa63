"""Ablations of retrieval: what each of its parts is worth, as a designed experiment. See docs/ablations.md."""
