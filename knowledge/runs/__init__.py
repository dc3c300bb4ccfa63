"""The run store: every run, candidate, evaluation, retrieval and cost, and the content-addressed objects beside them."""
