"""Faults that `just bench mutants` plants in `agentlearn/train`, and what is needed to plant them."""
