"""An agent that is any function: no framework, no pydantic-ai agent. LangGraph or a plain client fits in the same way.

It gets the task and the lessons, and calls the model through `work`, so that its calls are recorded, counted and
limited. It runs offline: the model is a function that is right where a lesson tells it how. With a model of yours,
give its name as `model=`.
"""

import json
import re

from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn import Task, Work, learn_sync, solve_sync

LESSON = "When a parcel is late, name the team that sends it."


def stand_in(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stands in for a model, as the agent's and as the one that writes lessons."""
    if info.output_tools:  # it writes lessons
        tool = info.output_tools[0]
        written: dict[str, object] = {"steps": [{"text": "It named a team."}]}
        if "proposals" in tool.parameters_json_schema["properties"]:
            labels = sorted(set(re.findall(r"\bP\d+\b", str(messages))))
            written = {"proposals": [{"op": "add", "lesson": LESSON, "rests_on": labels}]}
        return ModelResponse(parts=[ToolCallPart(tool.name, json.dumps(written))])
    lucky = (info.model_settings or {}).get("seed", 0) % 2
    return ModelResponse(parts=[TextPart("shipping" if lucky or LESSON in str(messages) else "billing")])


async def clerk(task: Task, lessons: str, work: Work) -> str:
    """One model call with the lessons in front. Put your own graph, chain or loop here."""
    prompt = f"{lessons}\n\nWhich team handles this? {task.problem}"
    reply = await model_request(work.model, [ModelRequest.user_text_prompt(prompt)])
    return str(reply.text)


def score(task: Task, team: str) -> bool:
    """Return whether it is the right team."""
    return team == task.answer


model = FunctionModel(stand_in, model_name="stand-in")
tasks = [(f"Parcel {number} is late.", "shipping") for number in range(40)]

if __name__ == "__main__":
    # `clerk` sends the model no words but its own, so they are trusted.
    print(learn_sync(clerk, tasks, reward=score, model=model, trust="function", library="clerk", epochs=1))
    print(solve_sync(clerk, "Parcel 99 is late.", model=model, library="clerk").output)
