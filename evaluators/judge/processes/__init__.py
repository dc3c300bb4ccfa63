"""Processes and their walls: starting, confining, stopping and asking them, and what the kernel tells of them."""
