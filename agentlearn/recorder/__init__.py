"""Recording live traffic: what an application's agent did, and what people said about it, from any process."""

from agentlearn.recorder.recorder import Recorder, Reserved

__all__ = ["Recorder", "Reserved"]
