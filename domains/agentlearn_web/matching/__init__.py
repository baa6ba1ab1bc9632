"""Whether an answer says the same as the expected one: dates, numbers, lists and words, exactly. Pure."""

from agentlearn_web.matching.compare import Finding, answer_key, compare

__all__ = ["Finding", "answer_key", "compare"]
