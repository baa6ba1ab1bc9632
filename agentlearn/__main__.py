"""`python -m agentlearn` is the command line."""

from agentlearn.cli import main

main()
