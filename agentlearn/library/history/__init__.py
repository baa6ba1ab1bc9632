"""The history of a library: an append-only log of its changes, branches, tags, and what can be asked of them."""

from agentlearn.library.history.change import Change, ChangeKind, HistoryOperation
from agentlearn.library.history.change_log import MAIN, LibraryState
from agentlearn.library.history.hand_edits import LibraryDiff, diff_libraries
from agentlearn.library.history.history import History
from agentlearn.library.history.lesson_blame import BlamedLesson
from agentlearn.library.history.three_way import JoinConflict, LibraryJoin

__all__ = [
    "MAIN",
    "BlamedLesson",
    "Change",
    "ChangeKind",
    "History",
    "HistoryOperation",
    "JoinConflict",
    "LibraryDiff",
    "LibraryJoin",
    "LibraryState",
    "diff_libraries",
]
