"""What a model that ships can answer: only problems in the wordings of its domain's families."""

from agentlearn.config import LAB, is_lab
from agentlearn.lab.contract import announced_labs
from agentlearn.models.endpoint import is_simulated


def limits_note(model: str, question: str) -> str | None:
    """Return what to know about a shipped model's answer to a question; None for a model that does not ship."""
    if is_simulated(model):
        return f"{model} is simulated: it answers only problems that agentlearn itself generates"
    if not is_lab(model):
        return None
    lab = announced_labs().get(model.removeprefix("local:").removeprefix(LAB))
    if lab is None:
        return f"{model} is a lab model: it answers only problems like those it was trained on"
    known = f"{model} knows only the {lab.families} families of problems that it was trained on"
    if lab.knows(question):
        return f"{known}; this is one of them, but its answer may still be wrong"
    return f"{known}, and this is none of them: its answer means nothing; choose another model with --model"
