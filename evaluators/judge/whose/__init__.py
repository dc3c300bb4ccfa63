"""Whose work a candidate's time is: its own code's, or a library's."""
