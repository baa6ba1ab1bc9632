"""How lessons reach a prompt: which of them, and in what words around them."""

from agentlearn.retrieve.rendering import Rendered, render

__all__ = ["Rendered", "render"]
