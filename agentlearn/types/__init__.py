"""Frozen data types: tasks, treatments, trajectories, groups, experiences, operations, summaries, runs."""
