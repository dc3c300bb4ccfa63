"""What runs in the oracle's process: inputs, expected results, and the rule by which results are right. No candidate code ever does."""
