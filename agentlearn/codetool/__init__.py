"""The Python tool of every domain that runs code: what its results look like (`rendering`), and the tool (`tool`).

The two stand apart because a reader of results, such as a simulated solver, needs no agent.
"""
