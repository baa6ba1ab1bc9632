"""Each promise is checked: a domain that breaks one is told of that one, and of no other."""

from pathlib import Path

import pytest

from agentlearn.domain.contract import check_domain_sync
from tests.contract.broken import BROKEN, Mute, Raises, Silent, Sound, Structured, Torn, Unpleased

JUDGING = {"right", "wrong", "no answer", "verify", "answer key"}


def states(domain: object, data: Path | None = None) -> dict[str, tuple[str, str]]:
    return {one.name: (one.state, one.words) for one in check_domain_sync(domain, data=data)}


def test_a_sound_domain_keeps_every_promise() -> None:
    assert {state for state, _ in states(Sound()).values()} == {"ok"}


def test_every_promise_has_a_domain_that_breaks_it() -> None:
    assert set(states(Sound())) == {promise for _, promise, _ in BROKEN}


@pytest.mark.parametrize(("kind", "promise", "words"), BROKEN, ids=[words for _, _, words in BROKEN])
def test_a_broken_promise_is_named(kind: type, promise: str, words: str) -> None:
    found = states(kind())
    broken = [name for name, (state, _) in found.items() if state == "broken"]
    assert broken == [promise], found
    assert words in found[promise][1]


@pytest.mark.parametrize(
    ("domain", "words"),
    [
        (Torn(), "the reward must be None exactly when undecided"),
        (Mute(), "what verify returns is True, not of agentlearn.types.trajectory.Verdict"),
        (Raises(), "VerifierError: the judge fell asleep"),
    ],
)
def test_a_verifier_that_gives_no_sound_verdict_breaks_all_that_rests_on_it(domain: object, words: str) -> None:
    found = states(domain)
    assert {name for name, (state, _) in found.items() if state == "broken"} == JUDGING
    assert all(words in found[name][1] for name in JUDGING)


def test_what_cannot_be_tested_is_not_called_kept(tmp_path: Path) -> None:
    bare = states(Silent())
    assert {name for name, (state, _) in bare.items() if state == "ok"} == {"members", "optional", "prompts"}
    assert {state for state, _ in bare.values()} == {"ok", "untested"}
    file = tmp_path / "doubles.csv"
    file.write_text("problem,answer\nDouble 1.,2\nDouble 2.,4\n")
    assert {name for name, (state, _) in states(Silent(), file).items() if state != "ok"} == {"tasks", "splits"}
    assert states(Unpleased())["agent"][0] == "untested"


def test_an_agent_may_hand_in_its_answer() -> None:
    assert states(Structured())["agent"][0] == "ok"
