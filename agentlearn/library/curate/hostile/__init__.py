"""What the form of a lesson may not be: addresses, commands, encodings, look-alike letters, stated answers."""

from agentlearn.library.curate.hostile.screen import screened, wrong_form

__all__ = ["screened", "wrong_form"]
