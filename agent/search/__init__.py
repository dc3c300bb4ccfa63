"""The search over the graph of candidates: fitness F, selection policy π, node memory, termination rule τ, and the plan made from them."""
