"""Learning from live use: passes over new traffic, canaries, and the inbox of what waits for a person."""

from agentlearn.live.canary import CanaryDecision, step_canary
from agentlearn.live.drift import LabelChange
from agentlearn.live.inbox import Inbox, ReviewDecision
from agentlearn.live.passes import LiveLearning, LivePass, keep_learning
from agentlearn.live.waiting import ClosedItem, Item, WaitingItems, WaitingLesson

__all__ = [
    "CanaryDecision",
    "ClosedItem",
    "Inbox",
    "Item",
    "LabelChange",
    "LiveLearning",
    "LivePass",
    "ReviewDecision",
    "WaitingItems",
    "WaitingLesson",
    "keep_learning",
    "step_canary",
]
