"""Rendering a library for the stages of learning, which choose the letter of its labels."""

from collections.abc import Collection

from agentlearn.types.experience import Library
from agentlearn.types.ids import ExperienceId
from agentlearn.types.rendering import Rendered, render_lines

__all__ = ["Rendered", "render"]


def render(library: Library, masked: Collection[ExperienceId] = (), *, letter: str = "G") -> Rendered:
    """Render the lessons that are not masked, one per line after its label, fenced as advice."""
    return render_lines(library.experiences, masked, letter=letter)
