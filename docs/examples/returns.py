"""A shop's clerk that talks with customers: each task is a whole conversation.

A customer has a goal that the clerk does not see, and the reflector's model plays them. The reward looks at what was
paid back, not at words. The shop pays back half of the price of what was opened, which nobody told the clerk: lessons
can.

    export OPENAI_API_KEY=...            # and OPENAI_BASE_URL for a service of your own
    python returns.py
"""

import json

from pydantic_ai import Agent

from agentlearn import Task, Trajectory, User, learn_sync

PAID = {17: 40.0, 18: 12.0, 19: 90.0, 20: 30.0}
OPENED = {17, 19}


clerk = Agent("openai-chat:gpt-5-mini", instructions="You are a shop's clerk. Help the customer.")


@clerk.tool_plain
def look_up(order: int) -> str:
    """Return what was paid for an order, and whether its box was opened."""
    return f"paid {PAID[order]:.2f}, {'opened' if order in OPENED else 'unopened'}" if order in PAID else "not found"


@clerk.tool_plain
def pay_back(order: int, amount: float) -> str:
    """Pay money back for an order."""
    return f"paid back {amount:.2f} for order {order}"


def refunded(task: Task, said: str, trajectory: Trajectory) -> tuple[bool, str]:
    """Compare what the clerk paid back with what was due. What it said at last does not count."""
    calls = [call for step in trajectory.steps if step.kind == "model" for call in step.tool_calls]
    paid = [json.loads(call.arguments) for call in calls if call.tool == "pay_back"]
    due = [{"order": task.fields["order"], "amount": task.fields["due"]}]
    return paid == due, f"after {said!r}: paid back {paid}, due was {due}"


def conversation(order: int) -> Task:
    """Return the task of a customer who sends an order back."""
    due = PAID[order] / 2 if order in OPENED else PAID[order]
    goal = f"You send back your order, number {order}. You want your money and take what the shop gives."
    return Task.of("Hello, I want to send something back.", fields={"order": order, "due": due}, user=User(goal=goal))


tasks = [conversation(order) for order in PAID]

if __name__ == "__main__":
    print(learn_sync(clerk, tasks, reward=refunded, library="returns", group_size=4))
