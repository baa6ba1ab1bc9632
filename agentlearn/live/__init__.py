"""Learning from live use, with a person who decides: the inbox of everything that waits for one."""

from agentlearn.live.inbox import Decision, Inbox
from agentlearn.live.waiting import ClosedItem, Item, Waiting, WaitingLesson

__all__ = ["ClosedItem", "Decision", "Inbox", "Item", "Waiting", "WaitingLesson"]
