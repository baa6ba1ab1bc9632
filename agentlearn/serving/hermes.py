"""Calls in the form of Hermes models, under the name that scripts of other people use."""

from agentlearn.serving.tool_calls import parse_calls as parse_hermes

__all__ = ["parse_hermes"]
