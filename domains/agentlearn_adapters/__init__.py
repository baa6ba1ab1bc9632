"""Other projects' tasks as domains: `verifiers:NAME`, `inspect:TASK` and `bfcl:CATEGORY`, each with its own scorer.

Each adapter is a function that is announced under the entry-point group `agentlearn.adapters`. It imports the other
project only when one of its names is used.
"""
