"""Learning from live use, with a person who decides: the inbox of everything that waits for one, and canaries."""

from agentlearn.live.canary import CanaryDecision, step_canary
from agentlearn.live.drift import LabelChange
from agentlearn.live.inbox import Inbox, ReviewDecision
from agentlearn.live.waiting import ClosedItem, Item, WaitingItems, WaitingLesson

__all__ = [
    "CanaryDecision", "ClosedItem", "Inbox", "Item", "LabelChange", "ReviewDecision", "WaitingItems", "WaitingLesson",
    "step_canary",
]  # fmt: skip
