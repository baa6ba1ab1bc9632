"""Learners of instructions on the same tasks, with the same simulated model and the same number of its calls."""
