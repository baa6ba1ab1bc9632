"""The code tool's words, as this domain's agent and its simulated solver use them."""

from agentlearn.codetool.rendering import FAILED, TOOL, rendered, value_in

__all__ = ["FAILED", "TOOL", "rendered", "value_in"]
