"""Schooling a lab model: a transformer of at most a million weights, trained from scratch by a seeded command."""
