"""Which lessons fit a task, by their words: an index of words, ranks, and the choice of the lessons to show. Pure.

It needs no other package, so that `Library.render(query=…)` works in every install. `agentlearn.library.retrieval` adds
embeddings.
"""

from agentlearn.types.ranking.chooser import (
    MAX_QUERY_CHARACTERS,
    ChosenLessons,
    LessonIndex,
    RankedLesson,
    Retrieval,
    TermIndex,
    capped_query,
    fused,
    fused_depth,
    lesson_index,
    lower_case_words,
    search_words,
    shown_part,
    shown_tokens,
)

__all__ = [
    "MAX_QUERY_CHARACTERS",
    "ChosenLessons",
    "LessonIndex",
    "RankedLesson",
    "Retrieval",
    "TermIndex",
    "capped_query",
    "fused",
    "fused_depth",
    "lesson_index",
    "lower_case_words",
    "search_words",
    "shown_part",
    "shown_tokens",
]
