"""Datasets of the hub, read with the real client from a hub on loopback."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentlearn.data import name_of, read_tasks
from agentlearn.data.hub import PUBLISHED
from agentlearn.data.reading import rows
from agentlearn.errors import DataError, MissingExtra
from agentlearn.store.parquet import write_parquet
from agentlearn_math import domain
from tests.support.cases import cases
from tests.support.hub_stub import COMMIT, HubStub, hub_stub, json_lines
from tests.unit.data.online import absent

DAPO = (
    "Solve the following math problem step by step. The last line of your response should be of the form Answer:"
    " $Answer (without quotes) where $Answer is the answer to the problem.\n\n"
)
GSM8K = """---
license: mit
configs:
- config_name: main
  data_files:
  - split: train
    path: main/train-*
  - split: test
    path: main/test-*
- config_name: socratic
  data_files:
  - split: train
    path: socratic/train-*
---
# GSM8K
"""


def dapo(problem: str, answer: str) -> dict[str, object]:
    after = '\n\nRemember to put your answer on its own line after "Answer:".'
    return {
        "data_source": "math_dapo",
        "prompt": [{"role": "user", "content": f"{DAPO}{problem}{after}"}],
        "ability": "MATH",
        "reward_model": {"ground_truth": answer, "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": "9a9b6eb4"},
    }


def parquet(folder: Path, question: str, answer: str) -> bytes:
    """The content of a Parquet file with one row."""
    file = folder / "made.parquet"
    write_parquet(file, {"question": ("VARCHAR", [question]), "answer": ("VARCHAR", [answer])})
    return file.read_bytes()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubStub]:
    datasets = {
        "HuggingFaceH4/aime_2024": {
            "README.md": b"no front matter",
            "data/train-00000-of-00001.jsonl": json_lines({"id": 60, "problem": "P", "solution": "s", "answer": "033"}),
        },
        "math-ai/aime25": {"test.jsonl": json_lines({"problem": "P", "answer": "70", "id": "0"})},
        "openai/gsm8k": {
            "README.md": GSM8K.encode(),
            "main/train-00000-of-00001.parquet": parquet(tmp_path, "P", "so\n#### 1,234"),
            "main/test-00000-of-00001.parquet": parquet(tmp_path, "Q", "#### 5"),
            "socratic/train-00000-of-00001.parquet": parquet(tmp_path, "S", "#### 6"),
        },
        "BytedTsinghua-SIA/DAPO-Math-17k": {
            "data/dapo-math-17k.jsonl": json_lines(
                dapo("P", "1"),
                dapo("disputed", "1"),
                dapo("P", "1"),
                dapo("disputed", "2"),
                dapo("Q", "-3"),
                dapo("R", "4"),
            )
        },
        "me/mine": {
            "README.md": b"",
            "train.csv": b"Question,Answer\nP,5\n",
            "dataset_infos.json": b"{}",
            "mine.py": b"raise SystemExit",
        },
        "me/shards": {
            f"data/train-0000{n}-of-00003.jsonl": json_lines({"problem": f"P{n}", "answer": n}) for n in range(3)
        },
        "me/program": {"program.py": b"raise SystemExit", "README.md": b"---\nlicense: mit\n---\n"},
        "me/pictures": {"train/cat.png": b"PNG"},
        "me/damaged": {"train.jsonl": b'{"problem": "P", "answer": 1}\n{"problem"\n'},
    }
    with hub_stub(datasets, tmp_path / "cache", monkeypatch) as stub:
        yield stub


@pytest.mark.parametrize(("source", "answer", "where"), cases(__file__, "a_dataset_becomes_tasks"))
def test_a_dataset_becomes_tasks(hub: HubStub, source: str, answer: str, where: str) -> None:
    (task,) = domain.read(Path(source))
    assert (task.answer, task.source) == (answer, where)


def test_a_short_name_stands_for_one_revision(hub: HubStub) -> None:
    list(rows("hf:gsm8k"))
    list(rows("hf:gsm8k:test"))
    list(rows("hf:me/mine:train"))
    fixed = "740312add88f781978c0658806c59bc2815b9866"
    assert hub.listed == [("openai/gsm8k", fixed), ("me/mine", COMMIT)], "a commit is listed once"
    known = {name: one.revision for name, one in PUBLISHED.items()}
    assert known.pop("webwalkerqa") is None  # no commit of it is known to us
    assert {revision and len(revision) for revision in known.values()} == {40}


def test_dapo_is_read_without_its_prompt_its_repetitions_and_its_disputes(
    hub: HubStub, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "agentlearn"):
        tasks = read_tasks("hf:dapo-math-17k", domain="math", split="train")
    assert [(task.problem, task.answer) for task in tasks] == [("P", "1"), ("Q", "-3"), ("R", "4")]
    assert {task.family for task in tasks} == {""}
    assert "data.disputed" in caplog.text


def test_a_limit_fetches_no_more_files_than_it_has_to(hub: HubStub) -> None:
    tasks = read_tasks("hf:me/shards", domain="any", split="train", limit=2)
    assert [task.problem for task in tasks] == ["P0", "P1"]
    assert hub.fetched == ["data/train-00000-of-00003.jsonl", "data/train-00001-of-00003.jsonl"]


@pytest.mark.parametrize(("source", "sentence"), cases(__file__, "what_cannot_be_read_is_one_sentence"))
def test_what_cannot_be_read_is_one_sentence(hub: HubStub, source: str, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        list(rows(source))
    assert str(caught.value) == sentence
    assert not [name for name in hub.fetched if name.endswith(".py")]


def test_a_dataset_that_the_hub_does_not_have_is_one_sentence(hub: HubStub) -> None:
    with pytest.raises(DataError, match=r"^'hf:no/such:test' cannot be read: .*404.*check name, split and network"):
        list(rows("hf:no/such:test"))
    assert name_of("hf:me/mine:test") == "mine"
    with pytest.raises(DataError, match=r"train\.jsonl line 2"):
        read_tasks("hf:me/damaged", domain="any", split="train")


def test_without_huggingface_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    absent(monkeypatch, "huggingface_hub")
    with pytest.raises(MissingExtra) as caught:
        list(rows("hf:aime24"))
    assert str(caught.value) == "reading 'hf:aime24' needs huggingface_hub: pip install 'agentlearn-lib[hub]'"


@pytest.mark.parametrize("source", ["hf:aime24", "hf:me/mine"])
def test_a_hub_that_does_not_answer_is_named_at_once_and_the_cache_is_read(
    hub: HubStub, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = list(rows(source))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DataError) as error:
        list(rows("hf:other/set"))
    assert error.value.message == (
        "'hf:other/set' cannot be read: 127.0.0.1 does not answer (Connection refused), and the dataset 'other/set' is"
        " not in the cache of this machine; check the network, or give a file"
    )
    assert list(rows(source)) == before
