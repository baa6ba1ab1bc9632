"""The earlier name of `agentlearn.serving.tool_calls.parse_calls`, from when only the form of Hermes was read."""

from agentlearn.serving.tool_calls import parse_calls

parse_hermes = parse_calls
"""Reads every form of tool calls, not only that of Hermes. Programs outside of agentlearn import it by this name."""
