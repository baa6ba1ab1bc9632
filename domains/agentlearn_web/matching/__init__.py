"""Comparison of an answer with the expected one, as values, lists and words. Pure."""

from agentlearn_web.matching.answer_match import AnswerMatch, answer_match_key, match_answers

__all__ = ["AnswerMatch", "answer_match_key", "match_answers"]
