"""Which lessons may be hostile: addresses, commands, encodings, stated answers, and acts that a person must see."""

from agentlearn.learn.lessons.curate.hostile.screen import screened

__all__ = ["screened"]
