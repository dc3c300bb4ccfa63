"""Candidates that crash, hang, flood and attack what is around them. One judge must survive a thousand in a row, and leave nothing."""
