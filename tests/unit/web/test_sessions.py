"""Sessions without a browser: saved sessions, logins in settings, and certificates. No message shows a secret."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentlearn.cli.app import run
from agentlearn.config import LearnSettings, SiteOptions, given_settings
from agentlearn.errors import ConfigError
from agentlearn.text.secret_values import without_secrets
from agentlearn_web import WebDomain
from agentlearn_web.sessions import SiteAccess

CANARY = "canary-7c1d2e9f-session"
STATE = {
    "cookies": [
        {"name": "sid", "value": CANARY, "domain": "a.test", "path": "/", "httpOnly": True},
        {"name": "consent", "value": "accepted", "domain": "a.test", "path": "/"},
    ],
    "origins": [{"origin": "http://a.test", "localStorage": [{"name": "token", "value": f"{CANARY}-local"}]}],
}
LOGIN: list[dict[str, Any]] = [
    {"open": "https://a.example.org/login"},
    {"fill": "Password", "env": "SITE_PASSWORD"},
    {"click": "Sign in"},
    {"expect": "Log out"},
]


def refusal(function: Any, *arguments: Any) -> str:
    with pytest.raises(ConfigError) as raised:
        function(*arguments)
    return raised.value.message


# saved sessions


def test_a_saved_session_is_read_whole_and_its_values_are_kept_secret(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text(json.dumps(STATE))
    access = SiteAccess.read(SiteOptions(storage_state=file))
    assert access.session == STATE
    assert CANARY not in repr(access)
    assert without_secrets(f"sid={CANARY}; {CANARY}-local; accepted") == "sid=[secret]; [secret]; accepted"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[]",
        "{}",
        '{"cookies": []}',
        f'{{"cookies": [{{"name": "{CANARY}"}}], "origins": []}}',
        "[" * 9999,
    ],
)
def test_a_bad_session_file_is_one_sentence_without_its_text(text: str, tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text(text)
    assert refusal(SiteAccess.read, SiteOptions(storage_state=file)) == (
        f"{str(file)!r} is not a storage state; write one with Playwright's `context.storage_state(path=...)`,"
        " or with `playwright open --save-storage=FILE`"
    )


# logins


def test_a_login_is_stored_with_the_names_of_its_variables_only() -> None:
    settings = given_settings(LearnSettings, {"domain": "web", "login": LOGIN})
    assert [act.model_dump(exclude_defaults=True) for act in settings.login] == LOGIN
    assert LearnSettings.model_validate_json(settings.resolved()).login == settings.login


def test_an_act_that_is_none_is_one_sentence_without_its_text(subtests: pytest.Subtests) -> None:
    for act in [
        {"fill": "Password", "text": CANARY},
        {"fill": "Password", "env": CANARY},
        {"fill": CANARY},
        {"env": "A"},
        {"open": "https://a.test/", "click": "x"},
        {"open": ["x"]},
        {},
        CANARY,
        None,
    ]:
        with subtests.test(repr(act)):
            message = refusal(given_settings, LearnSettings, {"domain": "web", "login": [LOGIN[0], act]})
            assert message == (
                "act 2 of the login is not one of: open, click or expect with a text, or fill with env, the name of an"
                " environment variable; write it such as {fill: Password, env: SITE_PASSWORD}"
            )


@pytest.mark.parametrize("url", [f"https://anna:{CANARY}@a.test/", "file:///etc/passwd", "a.test"])
def test_a_login_opens_plain_web_addresses_only(url: str) -> None:
    message = refusal(given_settings, LearnSettings, {"domain": "web", "login": [{"open": url}]})
    assert message.startswith("act 1 of the login opens something else than a web address")
    assert CANARY not in message


def test_a_login_needs_its_variables_and_keeps_them_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    options = SiteOptions.model_validate({"login": LOGIN})
    monkeypatch.delenv("SITE_PASSWORD", raising=False)
    assert refusal(SiteAccess.read, options) == (
        "the login needs the environment variable 'SITE_PASSWORD'; set it and run again"
    )
    monkeypatch.setenv("SITE_PASSWORD", "correct horse battery")
    assert SiteAccess.read(options).login == options.login
    assert without_secrets("it is correct horse battery") == "it is [secret]"


# proxies and certificates


@pytest.mark.parametrize(
    "given", [f"http://anna:{CANARY}@proxy.test:3128", "socks5://proxy.test", "proxy.test", "http://a/b"]
)
def test_a_proxy_is_a_plain_web_address(given: str) -> None:
    message = refusal(given_settings, LearnSettings, {"domain": "web", "site_proxy": given})
    assert "the address of the proxy has a user name" in message or "is not the address of a proxy" in message
    assert CANARY not in message


def test_the_login_of_a_proxy_is_the_name_of_a_variable() -> None:
    message = refusal(given_settings, LearnSettings, {"domain": "web", "site_proxy_login": f"anna:{CANARY}"})
    assert message.startswith("site_proxy_login is not the name of an environment variable")
    assert CANARY not in message


def test_a_file_without_certificates_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    options = SiteOptions(ca_file=file)
    assert refusal(SiteAccess.read, options) == f"there is no file of certificates {str(file)!r}; check the path"
    file.write_text("nothing")
    assert refusal(SiteAccess.read, options) == (
        f"{str(file)!r} holds no certificate; give a PEM file, which contains -----BEGIN CERTIFICATE-----"
    )
    file.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----")
    assert refusal(SiteAccess.read, options).startswith(f"the certificates in {str(file)!r} cannot be read")


def test_the_options_are_read_once_and_the_domain_stays_as_it_is(tmp_path: Path) -> None:
    domain = WebDomain()
    file = tmp_path / "state.json"
    file.write_text(json.dumps(STATE))
    bound = domain.with_sites(SiteOptions(allow_host=("a.test:80",), storage_state=file))
    assert bound.access is not None
    assert (domain.access, bound.access.allowed) == (None, frozenset({("a.test", 80)}))
    assert bound.access.session is not None
    assert CANARY not in repr(bound.access)
    assert SiteAccess.read(SiteOptions()).upstream is None


# domains


def test_the_command_line_takes_the_file_of_a_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["solve", "web", "Who?", "--url", "https://example.org/", "--model", "sim:novice", "--login", "login.yaml"]
    assert run(given) == 2
    assert "there is no login file 'login.yaml'; check the path" in " ".join(capsys.readouterr().err.split())
    (tmp_path / "login.yaml").write_text(f"- {{fill: Password, env: '{CANARY}'}}")
    assert run(given) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "act 1 of the login is not one of" in said
    assert CANARY not in said
