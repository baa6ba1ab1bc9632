"""Rollouts: run an agent once on a task, record the steps, and let the domain judge the answer."""
