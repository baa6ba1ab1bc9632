"""Measures arms on the same tasks: observations, the score table, contrasts, verdicts and their sentences.

`learn`, `train` and `compare` all measure with these modules. They do no I/O and do not know how
rollouts are made.
"""
