"""The base class of domains: its defaults, how a domain is loaded, and that docs/domains.md describes every member."""

import asyncio
import inspect
from pathlib import Path

import pytest

from agentlearn.domain.base import Domain, RolloutShape, all_members, load_domain, method_signature, required_members
from agentlearn.domain.contract import domain_at
from agentlearn.errors import ConfigError
from agentlearn_math import MathDomain
from tests.support.toy_domain import ToyDomain

DOCS = Path(__file__).parents[3] / "docs" / "domains.md"
REQUIRED = {"name", "description", "tasks", "read", "agent", "prompts", "question", "open", "verify", "answer_key"}


class Misspelt(MathDomain):
    def page_seen(self) -> None: ...


class Unfinished(Domain):
    name = "unfinished"


misspelt = Misspelt()


text = "a domain"


def install(value: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install an object of this file as the domain `tried`."""
    installed = folder / "tried-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: tried\nVersion: 0\n")
    (installed / "entry_points.txt").write_text(f"[agentlearn.domains]\ntried = {__name__}:{value}\n")
    monkeypatch.syspath_prepend(str(folder))


def described() -> dict[str, str]:
    """The rows of the tables in docs/domains.md, by the code in their first cell."""
    rows = [line.split("|") for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    return {cells[1].strip(" `"): cells[2].strip() for cells in rows}


def test_a_member_without_a_default_is_required() -> None:
    assert set(required_members(Domain)) == REQUIRED


def test_the_documentation_describes_every_member() -> None:
    assert set(described()) == {
        method_signature(Domain, name).replace("'", '"') if inspect.isfunction(getattr(Domain, name, None)) else name
        for name in all_members(Domain)
    }


def test_the_documentation_gives_every_default() -> None:
    cells = described()
    values = [name for name in all_members(Domain) if name not in REQUIRED and name in cells]
    assert {name: cells[name] for name in values} == {name: f"`{getattr(Domain, name)!r}`" for name in values}


def test_by_default_a_domain_needs_nothing_more() -> None:
    toy = ToyDomain()
    (trajectory, row) = (object(), object())
    assert toy.for_lessons(trajectory) is trajectory  # type: ignore[arg-type]
    assert (toy.max_open_rollouts(), toy.pages_seen(trajectory), toy.machine_checks()) == (None, (), ())  # type: ignore[arg-type]
    assert (toy.rollout_shape(), toy.answer_reader("any.csv")(" 4 ")) == (RolloutShape(), "4")
    assert toy.start_and_path(row) == ("", ())  # type: ignore[arg-type]
    assert toy.data_columns().problem == ("problem", "question")

    async def started() -> Domain:
        async with toy.running() as running:
            return running

    assert asyncio.run(started()) is toy
    for call, words in (
        (lambda: toy.with_sandbox(None), "domain 'toy' runs code but takes no sandbox"),  # type: ignore[arg-type]
        (lambda: toy.with_judge(None), "domain 'toy' uses a judge but takes none"),  # type: ignore[arg-type]
        (lambda: toy.with_reward("path"), "domain 'toy' has no reward 'path'"),
    ):
        with pytest.raises(ConfigError, match=f"^{words}$"):
            call()


@pytest.mark.parametrize("value", ["misspelt", "text"])
def test_what_is_not_a_domain_is_not_loaded(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = {
        "misspelt": "has 'page_seen', which is not a member of a domain; did you mean 'pages_seen'? Rename it, or start"
        " it with '_'",
        "text": "is not an instance of a subclass of agentlearn.Domain; see docs/domains.md for what a domain must"
        " have",
    }
    install(value, tmp_path, monkeypatch)
    with pytest.raises(ConfigError) as caught:
        load_domain("tried")
    expected = f"domain 'tried' ({__name__}:{value}) {words[value]}"
    assert caught.value.message == expected


def test_an_unfinished_class_is_refused_with_its_missing_methods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("Unfinished", tmp_path, monkeypatch)
    with pytest.raises(ConfigError, match=r"cannot be created: Can't instantiate abstract class Unfinished .*agent"):
        load_domain("tried")
    with pytest.raises(ConfigError, match="cannot be created"):
        domain_at(f"{__name__}:Unfinished")
