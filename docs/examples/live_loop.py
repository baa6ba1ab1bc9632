"""The whole live loop in one program: record, feedback, learn, approve, and the agent is better without a restart.

It runs offline: model and users are functions. In an application, each step is in another place and at another time;
`agentlearn live support --every 1h` does the third one in the background.
"""

import sys
from pathlib import Path

from pydantic_ai import Agent

from agentlearn import Experiences, Recorder, learn_sync
from agentlearn.live import Inbox

sys.path.insert(0, str(Path(__file__).parent))  # for the stand-in of a model, in the example beside this one
from any_agent import model

STORE = Path(".agentlearn")
agent = Agent(model, instructions="Name the team.", model_settings={"seed": 0})  # seed 0: wrong without the lesson
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
