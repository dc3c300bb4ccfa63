"""Reports: what a person reads of a run or a batch, and the raw record beside it."""

from agent.report.batch import BatchRow, write_batch
from agent.report.load import load
from agent.report.page import module, write

__all__ = ["BatchRow", "load", "module", "write", "write_batch"]
