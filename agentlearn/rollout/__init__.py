"""Rollouts: run an agent on a task once, record what happened, and let the domain judge it."""
