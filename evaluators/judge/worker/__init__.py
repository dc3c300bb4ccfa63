"""What runs in the candidate's process, beside the candidate. Nothing here decides anything."""
