"""Learning from live use, with a person who decides: the inbox of everything that waits for one."""

from agentlearn.live.inbox import Inbox, ReviewDecision
from agentlearn.live.waiting import ClosedItem, Item, WaitingItems, WaitingLesson

__all__ = ["ClosedItem", "Inbox", "Item", "ReviewDecision", "WaitingItems", "WaitingLesson"]
