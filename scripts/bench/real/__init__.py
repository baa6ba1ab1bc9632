"""Real runs: a small instruct model from PyPI, trained and measured on tasks of rising difficulty."""
