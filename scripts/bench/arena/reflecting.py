"""What the simulated reflector does in the same way for every learner that asks for it: one list of changes of many,
and the replies to agentlearn's own stages."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from agentlearn_demo.sim.prompts import ConsolidatePrompt
from agentlearn_demo.sim.skills import experiences_in
from scripts.bench.arena.proxy import Conclusion, Proxy

_DOCUMENT = re.compile(r"<document>\n(.*?)</document>", re.DOTALL)
_EDIT = re.compile(
    r'^\[(P\d+)\] edit (G\d+): (?:old ("(?:[^"\\]|\\.)*"))?(?:, )?(?:new ("(?:[^"\\]|\\.)*"))?', re.MULTILINE
)


def merged(
    proposals: Sequence[tuple[str, Conclusion]], about: Callable[[str], str]
) -> list[tuple[Conclusion, list[str]]]:
    """One change for each subject, the one that most proposals ask for, with their labels; most asked for first."""
    subjects = defaultdict[str, list[tuple[str, Conclusion]]](list)
    for label, change in proposals:
        subjects[about(change[1])].append((label, change))
    made = list[tuple[Conclusion, list[str]]]()
    for same in sorted(subjects.values(), key=len, reverse=True):
        change, _ = Counter(one for _, one in same).most_common(1)[0]
        made.append((change, [label for label, one in same if one == change]))
    return made


def stage_reply(proxy: Proxy, question: str, *, document: bool) -> dict[str, Any]:
    """The reply to a stage of agentlearn: a summary, proposals of a group, or those of a batch made one list.

    document: whether a document is edited, and not a list of lessons.
    """
    if "<trajectory>" in question:
        return {"steps": [{"text": "It answered from what it had read."}]}
    key, labels = "edits" if document else "proposals", {one.text: one.label for one in experiences_in(question)}
    if "<proposals>" in question:
        given, about = _proposals(question, labels, document=document), proxy.ground.about
        return {
            key: [{**_item(one, labels, document=document), "rests_on": names} for one, names in merged(given, about)]
        }
    shown = _DOCUMENT.search(question)
    text = shown[1] if shown else "\n".join([proxy.ground.start, *labels])
    return {key: [_item(one, labels, document=document) for one in proxy.concluded(question, text)]}


def _item(change: Conclusion, labels: dict[str, str], *, document: bool) -> dict[str, Any]:
    old, new = change
    if document:
        return {"op": "edit" if old else "add", "target": "G1", "new": new} | ({"old": old} if old else {})
    return {"op": "modify", "target": labels[old], "lesson": new} if old in labels else {"op": "add", "lesson": new}


def _proposals(question: str, labels: dict[str, str], *, document: bool) -> list[tuple[str, Conclusion]]:
    if document:
        found = _EDIT.findall(question)
        return [(label, (json.loads(old or '""'), json.loads(new or '""'))) for label, _, old, new in found]
    texts = {label: text for text, label in labels.items()}
    suggestions = ConsolidatePrompt.read(question).suggestions
    return [(one.label, (texts.get("".join(one.targets), ""), one.lesson)) for one in suggestions]
