"""Tenants: what one records and learns is in its own store only; shared lessons are shown beneath its own."""

import json
from pathlib import Path

import pytest

from agentlearn import Experiences, LibraryStore, Recorder, lessons, library_of, read_store
from agentlearn.cli.app import run as command_line
from agentlearn.errors import ConfigError, LibraryError
from agentlearn.library.tenants import tenant_store
from agentlearn.live.forgetting import forget
from agentlearn.store import Selection

SHARED = "When a refund is asked for, name the day it arrives."
ACME = "When Acme writes, answer in French."


def publish(store: Path, *words: str) -> None:
    LibraryStore(store / "libraries").publish("support", library_of(words))


def record(store: Path, tenant: str | None, question: str) -> str:
    with Recorder("support", store, tenant=tenant) as recorder:
        chat = [{"role": "user", "content": question}, {"role": "assistant", "content": "Tomorrow."}]
        shown = Experiences("support", store=store, tenant=tenant, missing="empty")
        return recorder.record_sync(chat, experiences=shown, user="ana")


def test_shared_lessons_come_first_and_a_tenants_own_on_top(tmp_path: Path) -> None:
    acme = Experiences("support", store=tmp_path, tenant="acme", follow=True, missing="empty")
    assert len(acme.library) == 0
    publish(tmp_path, SHARED)
    assert [one.lesson for one in acme.library.experiences] == [SHARED]
    publish(tenant_store(tmp_path, "acme"), ACME, SHARED.upper())
    assert [one.lesson for one in acme.library.experiences] == [SHARED, ACME], "the same words are shown once"
    assert lessons("support", store=tmp_path, tenant="acme").text == acme.rendered.text
    other = lessons("support", store=tmp_path, tenant="beta")
    assert [one.lesson for one in other.library.experiences] == [SHARED]
    assert [one.lesson for one in lessons("support", store=tmp_path).library.experiences] == [SHARED]
    assert acme != Experiences("support", store=tmp_path, tenant="beta", follow=True, missing="empty")
    only = Experiences("faq", store=tmp_path, tenant="acme", missing="empty")
    assert len(only.library) == 0
    with pytest.raises(LibraryError, match="library 'faq' is not in the library store"):
        Experiences("faq", store=tmp_path, tenant="acme")


def test_a_tenant_alone_and_its_version_are_those_of_its_own_library(tmp_path: Path) -> None:
    publish(tenant_store(tmp_path, "acme"), ACME)
    library = LibraryStore(tenant_store(tmp_path, "acme") / "libraries").load("support")
    assert Experiences("support", store=tmp_path, tenant="acme").library == library


def test_what_two_tenants_record_is_in_files_of_their_own(tmp_path: Path) -> None:
    publish(tmp_path, SHARED)
    publish(tenant_store(tmp_path, "acme"), ACME)
    asked = {None: "Where is parcel 11?", "acme": "Where is parcel 22?", "beta": "Where is parcel 33?"}
    rollouts = {tenant: record(tmp_path, tenant, question) for tenant, question in asked.items()}
    for tenant in asked:
        with read_store(tenant_store(tmp_path, tenant)) as reader:
            assert [one.id for one in reader.selected(Selection(domain="support"))] == [rollouts[tenant]]
    for tenant, question in asked.items():
        holding = {file for file in tmp_path.rglob("*") if file.is_file() and question.encode() in file.read_bytes()}
        home = tenant_store(tmp_path, tenant)
        assert holding
        assert all(home in file.parents for file in holding)
        assert tenant is not None or all("tenants" not in file.parts for file in holding)
    acme = {file for file in tmp_path.rglob("*") if file.is_file() and ACME.encode() in file.read_bytes()}
    assert all(tenant_store(tmp_path, "acme") in file.parents for file in acme)
    forget(tenant_store(tmp_path, "acme"), user="ana")
    for tenant, left in ((None, 1), ("acme", 0), ("beta", 1)):
        with read_store(tenant_store(tmp_path, tenant)) as reader:
            assert len(reader.selected(Selection(domain="support"))) == left


def test_a_name_is_one_folder_of_its_own(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name in ("..", "../x", "a/b", "", ".a", "a.", "-a", "Acme", "é", "a b", "a" * 65, "/etc", "a\n"):
        with subtests.test(repr(name)), pytest.raises(ConfigError, match="is not a valid name for a tenant"):
            tenant_store(tmp_path, name)
    for name in ("a", "acme", "acme-2.eu", "a" * 64):
        assert tenant_store(tmp_path, name) == tmp_path / "tenants" / name
    with pytest.raises(ConfigError, match="is a tenant's already; give the shared store"):
        tenant_store(tmp_path / "tenants" / "acme", "beta")
    (tmp_path / "tenants" / "beta").mkdir(parents=True)
    (tmp_path / "tenants" / "acme").symlink_to(tmp_path / "tenants" / "beta")
    with pytest.raises(ConfigError, match=r"the store of tenant 'acme' cannot be used: .* a symbolic link"):
        Recorder("support", tmp_path, tenant="acme")


def test_only_the_name_of_a_library_has_a_tenants_part(tmp_path: Path, subtests: pytest.Subtests) -> None:
    publish(tmp_path, SHARED)
    for given in ([ACME], library_of([ACME]), "support@1234", tmp_path / "file.json", "none"):
        with subtests.test(repr(given)), pytest.raises(LibraryError, match="tenant='acme' needs the name of a library"):
            lessons(given, store=tmp_path, tenant="acme")


def test_every_command_with_a_store_takes_a_tenant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    monkeypatch.chdir(tmp_path)
    publish(Path(".agentlearn"), SHARED)
    assert command_line(["library", "add", "support", ACME, "--tenant", "acme"]) == 0
    for where in (["--tenant", "acme"], ["--tenant=acme"], ["--store", ".agentlearn", "--tenant", "acme"]):
        with subtests.test(" ".join(where)):
            capsys.readouterr()
            assert command_line(["library", "show", "support", "--json", *where]) == 0
            assert [one["lesson"] for one in json.loads(capsys.readouterr().out)["experiences"]] == [ACME]
    assert command_line(["library", "show", "support", "--json"]) == 0
    assert [one["lesson"] for one in json.loads(capsys.readouterr().out)["experiences"]] == [SHARED]
    for wrong, sentence in (
        (["--tenant", "../x"], "'../x' is not a valid name for a tenant"),
        (["--tenant"], "'' is not a valid name for a tenant"),
        (["--tenant", "a", "--tenant", "b"], "--tenant is given twice, as 'a' and 'b'"),
    ):
        with subtests.test(" ".join(wrong)):
            assert command_line(["library", "list", *wrong]) == 2
            assert sentence in capsys.readouterr().err
