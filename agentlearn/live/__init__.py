"""Learning from live use: passes over new traffic, and the inbox of everything that waits for a person."""

from agentlearn.live.inbox import Inbox, ReviewDecision
from agentlearn.live.passes import LiveLearning, LivePass, keep_learning
from agentlearn.live.waiting import ClosedItem, Item, WaitingItems, WaitingLesson

__all__ = [
    "ClosedItem",
    "Inbox",
    "Item",
    "LiveLearning",
    "LivePass",
    "ReviewDecision",
    "WaitingItems",
    "WaitingLesson",
    "keep_learning",
]
