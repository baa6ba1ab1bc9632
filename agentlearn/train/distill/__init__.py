"""Distilling lessons into weights: the teacher's prompts, and when a run must end early."""
