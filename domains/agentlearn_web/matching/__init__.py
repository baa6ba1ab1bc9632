"""Whether an answer says the same as the expected one: dates, numbers, lists and words, exactly. Pure."""

from agentlearn_web.matching.answer_match import AnswerMatch, answer_match_key, match_answers

__all__ = ["AnswerMatch", "answer_match_key", "match_answers"]
