"""``python -m agent.cli``: the same as ``kernelevolve``."""

from agent.cli import main

main()
