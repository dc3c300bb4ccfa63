"""Who is faster: turns of candidate and baseline, batches of calls, and what their times amount to."""
