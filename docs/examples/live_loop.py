"""The whole live loop in one program: record, feedback, learn, approve, and the agent is better without a restart.

It runs offline: model and users are functions. In an application, each step is in another place and at another time;
`agentlearn live support --every 1h` does the third one in the background.
"""

import json
import re
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn import Experiences, Recorder, learn_sync
from agentlearn.live.inbox import Inbox

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
    return ModelResponse(parts=[TextPart("shipping" if LESSON in str(messages) else "billing")])


model = FunctionModel(stand_in, model_name="stand-in")
STORE = Path(".agentlearn")
agent = Agent(model, instructions="Name the team.")
lessons = Experiences("support", follow=True, missing="empty")
recorder = Recorder("support")


def ask(number: int) -> str:
    """1 and 2: answer a customer, record it, and take the feedback of a colleague."""
    question = f"Parcel {number} is late."
    result = agent.run_sync(question, capabilities=[lessons])
    rollout = recorder.record_sync(result, task=question, experiences=lessons, user=f"customer-{number}")
    right = result.output == "shipping"
    words = "" if right else "parcels are sent by another team"
    recorder.feedback_sync(rollout, reward=(right, words), demonstration="" if right else "shipping", by="ana")
    return result.output


def main() -> None:
    """Go through the loop once."""
    print("before:", ask(1), ask(2))
    report = learn_sync(recorder.groups(), model=model, library="support", evaluate=False)  # 3
    print(report)
    inbox = Inbox(STORE / "libraries", STORE, who="ana")  # 4: users wrote what was learned from, so a person decides
    for item in inbox.items():
        print("approved:", [one.lesson for one in item.lessons])
        inbox.approve(item, note="it names the team")
    print("after:", ask(3))  # 5


if __name__ == "__main__":
    main()
