"""Learning from live use, with a person who decides: the inbox of everything that waits for one."""

from agentlearn.live.inbox import ClosedItem, Decision, Inbox, Item, Waiting, WaitingLesson

__all__ = ["ClosedItem", "Decision", "Inbox", "Item", "Waiting", "WaitingLesson"]
