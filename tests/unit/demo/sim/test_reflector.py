"""The reflector reads only its prompt; what it says follows from what stands there."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

import pytest

from agentlearn.types.experience import ASKED_LESSON_WORDS, word_count
from agentlearn_demo.sim.lessons import LessonReader, stance
from agentlearn_demo.sim.prompts import ReflectorStage
from agentlearn_demo.sim.reflector import FLAWLESS, Reflector, ReflectorParameters, ReflectorRequest
from agentlearn_demo.sim.skills import Conversation, Skills, Trap
from agentlearn_demo.sim.solver import Novice
from agentlearn_demo.sim.vocabulary import Defect, Vocabulary
from tests.unit.demo.sim.loop import epoch, gold_of
from tests.unit.demo.sim.toy import ENDPOINTS, REDUCTION, TRAPS, ToySkills, problems

SKILLS = ToySkills()
READER = LessonReader(SKILLS)
PROBLEM = "How many multiples of 7 lie from 3 to 70?"
HELD = f"When a loop runs over an interval, {ENDPOINTS.advice[0]}."
AGAINST = f"When a loop runs over an interval, there is no need to {ENDPOINTS.advice[0]}."


def items(
    stage: ReflectorStage,
    prompt: str,
    *,
    seed: int = 0,
    parameters: ReflectorParameters = FLAWLESS,
    refusal: str = "",
    previous: str = "",
) -> list[dict[str, object]]:
    reflection = ReflectorRequest(
        stage, prompt, seed=seed, refusal=refusal, previous=previous, earlier=int(bool(refusal))
    )
    reply = json.loads(Reflector([SKILLS], parameters=parameters).answer(reflection).text)
    assert list(reply) == ["steps" if stage == "summarise" else "proposals"]
    return next(iter(reply.values()))


def lesson_of(item: dict[str, object]) -> str:
    return str(item["lesson"])


def compare_prompt(*attempts: tuple[str, str], lessons: str = "", gold: str = "") -> str:
    shown = "\n".join(
        f'<attempt n="{at}" verdict="{verdict}" reward="0.00">\n1. Called run_python. Decided: “{text}”.\n</attempt>'
        for at, (verdict, text) in enumerate(attempts, start=1)
    )
    gold = f"<gold>\n{gold}\n</gold>\n" if gold else ""
    return f"<problem>\n{PROBLEM}\n</problem>\n{gold}<attempts>\n{shown}\n</attempts>\n{lessons}"


def library(*lessons: str) -> str:
    lines = "\n".join(f"[G{at}] {lesson}" for at, lesson in enumerate(lessons, start=1))
    return f"<experiences>\n{lines}\n</experiences>"


ENDS_APART = (("right", ENDPOINTS.careful[0]), ("wrong", ENDPOINTS.careless[1]), ("right", ENDPOINTS.careful[1]))

# --- summarise ---

SUMMARISE = """<problem>
How many?
</problem>
<verdict>wrong (reward 0.00)</verdict>
<experiences>
[G3] When in doubt, count.
</experiences>
<trajectory>
step 1 · model
I will count them by a program.
call run_python {"code": "# G3: both ends belong to the range\\nprint(1) # G9 is not shown"}
step 2 · tool run_python · error
Traceback
NameError: x
step 3 · model
call run_python
```python
# stop before the last value
print(42)
```
step 4 · tool run_python · ok
42
step 5 · model
\\boxed{42}
</trajectory>"""


def test_a_summary_tells_decisions_errors_and_the_experiences_used() -> None:
    steps = items("summarise", SUMMARISE)
    assert [step["used"] for step in steps] == [["G3"], [], [], [], []]
    texts = [str(step["text"]) for step in steps]
    assert "NameError: x" in texts[1]
    assert "try again" in texts[1]
    assert "42" in texts[3]
    assert "\\boxed{42}" in texts[4]


# --- compare ---


def test_what_sets_wrong_attempts_apart_becomes_a_lesson() -> None:
    (item,) = items("compare", compare_prompt(*ENDS_APART))
    assert item["op"] == "add"
    assert stance(lesson_of(item), ENDPOINTS) == "addresses"
    assert word_count(lesson_of(item)) <= ASKED_LESSON_WORDS


def kinds(lessons: str) -> Counter[str]:
    made = (items("compare", compare_prompt(*ENDS_APART, lessons=lessons), seed=seed) for seed in range(60))
    return Counter("+".join(f"{item['op']} {item.get('target', '')}".strip() for item in one) for one in made)


def test_a_misleading_lesson_is_deleted_or_turned_round() -> None:
    assert set(kinds(library("When idle, rest.", AGAINST))) == {"delete G2+add", "modify G2"}
    assert "delete G1" in kinds(library(AGAINST, HELD))


# --- dials ---


def write(defect: Defect, *, gold: str | None = "8128", seed: int = 0) -> str:
    lesson = Vocabulary(SKILLS).defective(defect, ENDPOINTS, Random(seed), (PROBLEM, gold))
    assert lesson is not None
    return lesson


@pytest.mark.parametrize("seed", range(8))
def test_each_defect_is_what_it_says(seed: int) -> None:
    assert not READER.read(write("useless", seed=seed)).stances
    narrow = READER.read(write("over_specific", seed=seed))
    assert narrow.families == {"multiples"}
    assert any(character.isdigit() for character in write("over_specific", seed=seed))
    assert word_count(write("over_long", seed=seed)) > ASKED_LESSON_WORDS
    assert stance(write("harmful", seed=seed), ENDPOINTS) == "contradicts"
    assert "8128" in write("leaking", seed=seed)
    assert stance(write("duplicate", seed=seed), ENDPOINTS) == "addresses"


def test_the_answer_never_leaves_the_prompt_but_by_its_dial() -> None:
    prompt = compare_prompt(*ENDS_APART, gold="8128")
    told = [lesson_of(item) for seed in range(50) for item in items("compare", prompt, seed=seed)]
    assert not any("8128" in lesson for lesson in told)


# --- consolidate ---


def consolidate_prompt(*proposals: str, lessons: str = "") -> str:
    lines = "\n".join(f"[P{at}] {proposal}\n    seen in 2 attempts" for at, proposal in enumerate(proposals, start=1))
    return f"{lessons}\n<proposals>\n{lines}\n</proposals>"


SAME = tuple(f"add: When a loop runs over an interval, {advice}." for advice in ENDPOINTS.advice)
OTHER = f"add: When a ratio is reported, {REDUCTION.advice[1]}."


def test_proposals_that_say_the_same_become_one() -> None:
    made = items("consolidate", consolidate_prompt(SAME[0], OTHER, SAME[1], SAME[2]))
    assert [(item["op"], item["rests_on"]) for item in made] == [("add", ["P1", "P3", "P4"]), ("add", ["P2"])]
    assert stance(lesson_of(made[0]), ENDPOINTS) == "addresses"


# --- the whole ---


@dataclass(frozen=True)
class Other:
    """Another domain, with one habit of its own."""

    domain = "other"
    topics: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    traps = (
        Trap(
            name="link_guessed",
            careless=("follow the first link", "guess the address"),
            careful=("read every link before choosing", "choose the link by its words"),
            cues=(("link",), ("read", "choos")),
            advice=("read all links before choosing one",),
            situations=("a page offers links",),
        ),
    )

    def recognise(self, conversation: Conversation) -> None:
        """It only speaks."""


@pytest.mark.parametrize("skills", [(SKILLS, Other()), (Other(), SKILLS)])
def test_with_several_domains_the_one_that_knows_the_words_speaks(skills: tuple[Skills, ...]) -> None:
    reflector = Reflector(skills, parameters=FLAWLESS)

    def said(stage: ReflectorStage, prompt: str) -> str:
        return str(json.loads(reflector.answer(ReflectorRequest(stage, prompt)).text)["proposals"][0]["lesson"])

    links = compare_prompt(("right", Other.traps[0].careful[0]), ("wrong", Other.traps[0].careless[0]))
    assert "link" in said("compare", links)
    assert stance(said("compare", compare_prompt(*ENDS_APART)), ENDPOINTS) == "addresses"
    assert "link" in said(
        "consolidate", consolidate_prompt("add: When a page offers links, read all links before choosing one.")
    )
    assert stance(said("consolidate", consolidate_prompt(SAME[0])), ENDPOINTS) == "addresses"


@pytest.mark.parametrize("world", range(3))
def test_a_few_epochs_teach_nearly_all_traps(world: int) -> None:
    novice, reflector = Novice([SKILLS], world=world), Reflector([SKILLS], world=world)
    lessons: list[str] = []
    for number in range(3):
        lessons = epoch(novice, reflector, problems(24, seed=world), lessons, number)
    addressed = {trap.name for trap in TRAPS if any(stance(lesson, trap) == "addresses" for lesson in lessons)}
    assert len(addressed) >= len(TRAPS) - 1
    assert gold_of(novice, problems(1)[0]).isdigit()
