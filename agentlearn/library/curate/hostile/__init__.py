"""Which lessons may be hostile: addresses, commands, encodings, stated answers, and acts that a person must see."""

from agentlearn.library.curate.hostile.screen import doubt_of, screened

__all__ = ["doubt_of", "screened"]
