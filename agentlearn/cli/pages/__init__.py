"""Report pages of runs: one HTML file for each, written at the end of the run and again from the store at any time.

`write_learn_page(store, run)` writes the page of a learn run from Python.
"""

from agentlearn.cli.pages.learn_page import page_at_the_end, write_learn_page

__all__ = ["page_at_the_end", "write_learn_page"]
