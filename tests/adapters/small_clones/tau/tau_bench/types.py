"""What tasks, actions and results are."""

from typing import Any

from pydantic import BaseModel

RESPOND_ACTION_NAME = "respond"


class Action(BaseModel):
    name: str
    kwargs: dict[str, Any]


class Task(BaseModel):
    user_id: str
    actions: list[Action]
    instruction: str
    outputs: list[str]


class Outputs(BaseModel):
    outputs: dict[str, bool]


class Result(BaseModel):
    reward: float
    info: Outputs | None = None


class Response(BaseModel):
    observation: str
    reward: float
    done: bool


class Solved(BaseModel):
    reward: float
