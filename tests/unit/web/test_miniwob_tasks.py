"""MiniWoB++ without a browser: which pages are tasks, their splits, and verdicts from rewards."""

import asyncio
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from urllib.error import HTTPError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.domain.base import load_domain
from agentlearn.errors import MissingExtra
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.ids import RunId, rollout_id
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Treatment, Verdict
from agentlearn_web import miniwob
from agentlearn_web.miniwob import (
    EXTRA,
    LABELLED_PAGES,
    PAGES,
    SITE,
    MiniwobDomain,
    _miniwob_folder,
    _serve_miniwob,
    domain,
)
from tests.support.cases import cases


def test_without_the_package_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(miniwob, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra) as caught:
        _miniwob_folder()
    assert str(caught.value) == f"the miniwob domain needs the package miniwob, which is not installed: {EXTRA}"
    assert [(one.state, one.mend) for one in domain.machine_checks()] == [("missing", EXTRA)]
    assert EXTRA == "pip install 'agentlearn-lib[web]' && pip install --no-deps 'miniwob>=1.1,<2'"


def test_the_labelled_variant_has_more_pages_and_a_name_of_its_own() -> None:
    labelled = load_domain("miniwob:labelled")
    assert isinstance(labelled, MiniwobDomain)
    assert (labelled.name, labelled.labelled, domain.name, domain.labelled) == (
        "miniwob:labelled",
        True,
        "miniwob",
        False,
    )
    tasks = labelled.tasks("train", seed=0, limit=len(PAGES) + len(LABELLED_PAGES))
    assert {task.family for task in tasks} == {*PAGES, *LABELLED_PAGES}
    assert {task.domain for task in tasks} == {"miniwob:labelled"}
    assert not {task.id for task in tasks} & {task.id for task in domain.tasks("train", seed=0, limit=90)}


@given(st.integers(0, 50), st.integers(0, 50))
def test_no_episode_is_in_two_splits_for_any_seeds(one: int, other: int) -> None:
    train = {task.problem for task in domain.tasks("train", seed=one, limit=90)}
    assert len(train) == 90
    assert not train & {task.problem for task in domain.tasks("test", seed=other, limit=90)}


def verdict(answer: str | None) -> Verdict:
    task = domain.tasks("train", seed=0, limit=1)[0]
    return domain.verify(task, _walk(task, answer))


def _walk(task: Task, answer: str | None) -> Trajectory:
    return Trajectory(
        id=rollout_id(RunId("r"), "epoch-1", task.id, 0, 0),
        run=RunId("r"),
        phase="epoch-1",
        task=task.id,
        g=0,
        seed=1,
        treatment=Treatment(model="scripted", library=EMPTY_LIBRARY.version),
        answer=answer,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("answer", "status", "worth"),
    cases(__file__, "the_verdict_is_the_reward_of_the_page"),
)
def test_the_verdict_is_the_reward_of_the_page(answer: str | None, status: str, worth: float) -> None:
    assert (verdict(answer).status, verdict(answer).reward) == (status, worth)


def test_only_files_of_the_folder_are_served(tmp_path: Path) -> None:
    (tmp_path / "html").mkdir()
    (tmp_path / "html" / "a.html").write_text("<p>ä</p>", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("s")

    async def asked(*paths: str) -> list[tuple[int, str]]:
        async with _serve_miniwob(tmp_path / "html") as served:
            host, port = served[SITE]
            return [await asyncio.to_thread(_get, f"http://{host}:{port}{path}") for path in paths]

    found = asyncio.run(asked("/a.html", "/../secret.txt", "/%2e%2e/secret.txt", "/", "/a.html?x=1"))
    assert [status for status, _ in found] == [200, 404, 404, 404, 200]
    assert found[0][1] == "text/html; charset=utf-8"


def _get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url) as answer:
            return answer.status, answer.headers["content-type"]
    except HTTPError as error:
        with error:
            return error.code, error.headers["content-type"]
