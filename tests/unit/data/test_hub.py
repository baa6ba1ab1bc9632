"""Datasets of the hub, behind a stand-in for `datasets`."""

import logging
from pathlib import Path

import pytest

from agentlearn.data import name_of, read_tasks, rows
from agentlearn.data.hub import CONNECT_S, PUBLISHED, why_unreachable
from agentlearn.errors import DataError, MissingExtra
from agentlearn_math import domain
from tests.unit.data.online import Hub, absent

DAPO = (
    "Solve the following math problem step by step. The last line of your response should be of the form Answer:"
    " $Answer (without quotes) where $Answer is the answer to the problem.\n\n"
)


def dapo(problem: str, answer: str) -> dict[str, object]:
    after = '\n\nRemember to put your answer on its own line after "Answer:".'
    return {
        "data_source": "math_dapo",
        "prompt": [{"role": "user", "content": f"{DAPO}{problem}{after}"}],
        "ability": "MATH",
        "reward_model": {"ground_truth": answer, "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": "9a9b6eb4"},
    }


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    return Hub(
        monkeypatch,
        {
            ("HuggingFaceH4/aime_2024", "train"): [{"id": 60, "problem": "P", "solution": "s", "answer": "033"}],
            ("math-ai/aime25", "test"): [{"problem": "P", "answer": "70", "id": "0"}],
            ("openai/gsm8k", "train"): [{"question": "P", "answer": "so\n#### 1,234"}],
            ("openai/gsm8k", "test"): [{"question": "Q", "answer": "#### 5"}],
            ("BytedTsinghua-SIA/DAPO-Math-17k", "train"): [
                dapo("P", "1"),
                dapo("disputed", "1"),
                dapo("P", "1"),
                dapo("disputed", "2"),
                dapo("Q", "-3"),
                dapo("R", "4"),
            ],
            ("me/mine", "train"): [{"Question": "P", "Answer": 5}],
        },
    )


@pytest.mark.parametrize(
    ("source", "answer", "where"),
    [
        ("hf:aime24", "33", "hf:aime24#0"),
        ("hf:aime25", "70", "hf:aime25#0"),
        ("hf:gsm8k", "1234", "hf:gsm8k#0"),
        ("hf:gsm8k:test", "5", "hf:gsm8k:test#0"),
        ("hf:me/mine", "5", "hf:me/mine#0"),
    ],
)
def test_a_dataset_becomes_tasks(hub: Hub, source: str, answer: str, where: str) -> None:
    (task,) = domain.read(Path(source))
    assert (task.answer, task.source) == (answer, where)


def test_a_short_name_stands_for_one_revision(hub: Hub) -> None:
    list(rows("hf:gsm8k"))
    list(rows("hf:me/mine:train"))
    assert hub.asked == [
        {
            "path": "openai/gsm8k",
            "name": "main",
            "split": "train",
            "revision": "740312add88f781978c0658806c59bc2815b9866",
        },
        {"path": "me/mine", "name": None, "split": "train", "revision": None},
    ]
    known = {name: one.revision for name, one in PUBLISHED.items()}
    assert known.pop("webwalkerqa") is None  # no commit of it is known to us
    assert {revision and len(revision) for revision in known.values()} == {40}


def test_dapo_is_read_without_its_prompt_its_repetitions_and_its_disputes(
    hub: Hub, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "agentlearn"):
        tasks = read_tasks("hf:dapo-math-17k", domain="math", split="train")
    assert [(task.problem, task.answer) for task in tasks] == [("P", "1"), ("Q", "-3"), ("R", "4")]
    assert {task.family for task in tasks} == {""}
    assert "data.disputed" in caplog.text


def test_a_limit_reads_no_further_than_it_has_to(hub: Hub) -> None:
    assert len(read_tasks("hf:dapo-math-17k", domain="math", split="train", limit=2)) == 2
    assert hub.read == 2


def test_an_aime_answer_of_the_hub_is_held_to_its_range(monkeypatch: pytest.MonkeyPatch) -> None:
    Hub(monkeypatch, {("HuggingFaceH4/aime_2024", "train"): [{"problem": "P", "answer": "1000"}]})
    with pytest.raises(DataError, match="hf:aime24 row 0 has the answer '1000', but AIME answers are integers"):
        domain.read(Path("hf:aime24"))


def test_refused_names(hub: Hub) -> None:
    for source, sentence in {
        "hf:aime23": "'hf:aime23' is not a known short name of a dataset ('hf:aime24', 'hf:aime25', 'hf:dapo-math-17k',"
        " 'hf:gsm8k', 'hf:webwalkerqa'); write 'hf:OWNER/NAME:SPLIT'",
        "hf:no/such:test": "'hf:no/such:test' cannot be read (no/such, split 'test': Couldn't reach 'no/such' on the"
        " Hub (offline)); check name, split and network, or give a file",
    }.items():
        with pytest.raises(DataError) as caught:
            list(rows(source))
        assert str(caught.value) == sentence
    assert name_of("hf:me/mine:test") == "mine"


def test_without_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    absent(monkeypatch, "datasets")
    with pytest.raises(MissingExtra) as caught:
        list(rows("hf:aime24"))
    assert str(caught.value) == "reading 'hf:aime24' needs datasets: pip install 'agentlearn-lib[data]'"


def test_a_hub_that_does_not_answer_is_named_at_once(hub: Hub) -> None:
    hub.unreachable = "huggingface.co does not answer (Temporary failure in name resolution)"
    with pytest.raises(DataError) as error:
        list(rows("hf:other/set"))
    assert error.value.message == (
        "'hf:other/set' cannot be read: huggingface.co does not answer (Temporary failure in name resolution), and the"
        " dataset 'other/set' is not in the cache of this machine; check the network, or give a file"
    )
    assert list(rows("hf:aime24"))  # it is in the cache


def test_the_hub_is_asked_for_a_connection_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(address: tuple[str, int], timeout: float) -> None:
        assert (address, timeout) == (("mirror.test", 8443), CONNECT_S)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr("agentlearn.data.hub.getproxies", dict)
    monkeypatch.setattr("socket.create_connection", refused)
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.test:8443")
    assert why_unreachable() == "mirror.test does not answer (Connection refused)"
    monkeypatch.setattr("agentlearn.data.hub.getproxies", lambda: {"https": "http://proxy.test:3128"})
    assert why_unreachable() == ""
