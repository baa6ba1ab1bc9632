"""Known secrets are left out of texts, and addresses of endpoints lose their credentials in one place."""

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.config import learn_settings
from agentlearn.config.endpoint_address import credentials_of, endpoint_name, has_login, without_credentials
from agentlearn.config.settings import SolveSettings, given_settings
from agentlearn.errors import ConfigError, EndpointError
from agentlearn.learning.open_run import keep_credentials
from agentlearn.text import visible_line
from agentlearn.text.secret_values import (
    HIDDEN,
    LEAST,
    know_environment,
    know_secret,
    secrets_here,
    without_keys,
    without_secrets,
)
from agentlearn_evals.compare_settings import CompareSettings
from agentlearn_web import WebDomain
from tests.support.cases import cases

NAME = "http://host.test:8000/v1#m"
TEXT = st.text(st.characters(codec="ascii", categories=("L", "N", "P", "S")), min_size=LEAST, max_size=20)


@given(user=TEXT, password=TEXT, key=TEXT)
def test_an_address_has_the_same_name_whatever_its_credentials(user: str, password: str, key: str) -> None:
    user, password, key = (f"~{one}~" for one in (user, password, key))
    address = f"http://{quote(user, safe='')}:{quote(password, safe='')}@host.test:8000/v1?key={quote(key, safe='')}#m"
    assert endpoint_name(address) == NAME
    found = credentials_of(NAME)
    assert (found.username, found.password, found.query) == (user, password, {"key": key})
    assert not any(one in repr(found) for one in (user, password, key))
    message = EndpointError(f"refused {password} and {quote(key, safe='')}").message
    assert message == f"refused {HIDDEN} and {HIDDEN}"


def test_only_credentials_are_taken_out(subtests: pytest.Subtests) -> None:
    for given_, name in cases(__file__, "only_credentials_are_taken_out"):
        with subtests.test(repr((given_, name))):
            assert endpoint_name(given_) == name
            assert without_credentials(given_.strip()) == name


@pytest.mark.parametrize(
    "address", ["http://user:pw#x@host/v1#m", "http://user:p/w@host/v1#m", "http://u:1#2@host/v1#m"]
)
def test_an_address_that_is_not_valid_is_not_repeated(address: str) -> None:
    with pytest.raises(ConfigError) as refused:
        learn_settings({"domain": "math", "model": address})
    assert refused.value.code == "bad_config"
    assert "@host" not in refused.value.message
    assert "user" not in refused.value.message.replace("user name", "")


def test_settings_hold_names_only() -> None:
    address = "http://someone:canary-password@host.test:8000/v1?key=canary-key#m"
    learned = learn_settings({"domain": "math", "model": address, "reflector": address})
    compared = given_settings(
        CompareSettings, {"arms": (f"a=none,model={address}", "b=none"), "models": (address,), "judge": address}
    )
    assert learned.private_addresses == ()
    for text in (learned.resolved(), repr(learned), compared.model_dump_json(), repr(compared)):
        assert "canary" not in text
        assert NAME in text
    assert f'"private_addresses":["{NAME}"]' in learned.resolved()


def test_environment_variables_give_credentials_to_a_resumed_run() -> None:
    keep_credentials({"model": "http://u:p@resumed.test/v1#m", "epochs": "3"})
    assert credentials_of("http://resumed.test/v1#m").username == "u"


def test_keys_tokens_and_proxies_of_the_environment_are_left_out() -> None:
    variables = {
        "SOME_API_KEY": "sk-canary-111",
        "HF_TOKEN": "hf_canary222",
        "HTTPS_PROXY": "http://me:canary-333@proxy.test:3128",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer canary-444",
        "PATH": "/usr/bin/canary-555",
        "SHORT_API_KEY": "none",
    }
    know_environment(variables)
    text = without_secrets("sk-canary-111 hf_canary222 canary-333 Bearer canary-444 /usr/bin/canary-555 none")
    assert text == f"{HIDDEN} {HIDDEN} {HIDDEN} {HIDDEN} /usr/bin/canary-555 none"


def test_of_two_secrets_the_longer_one_is_left_out_whole() -> None:
    know_secret("canary-short")
    know_secret("canary-short-and-long")
    assert without_secrets("canary-short-and-long") == HIDDEN


def test_errors_lose_a_key_that_was_cut_and_what_has_the_form_of_a_key() -> None:
    know_secret("canary-cut-0123456789")
    assert without_keys("Incorrect key: canary-cut-01234…") == f"Incorrect key: {HIDDEN}…"
    assert without_keys("canary-c is a word") == "canary-c is a word"
    message = EndpointError("refused AKIAABCDEFGHIJKLMNOP, password: hunter2-now, http://me:s3cret@x.test").message
    assert message == f"refused {HIDDEN}, {HIDDEN} http://{HIDDEN}@x.test"


def test_secrets_of_a_request_are_known_within_it_only() -> None:
    with secrets_here(["canary-of-a/request", "short"]):
        assert without_secrets("canary-of-a/request canary-of-a%2Frequest canary-of-a\\/request short") == (
            f"{HIDDEN} {HIDDEN} {HIDDEN} short"
        )
        assert visible_line("canary-of-a/request") == HIDDEN
    assert without_secrets("canary-of-a/request") == "canary-of-a/request"


def test_an_api_key_that_is_no_text_is_not_repeated() -> None:
    with pytest.raises(ConfigError) as refused:
        learn_settings({"domain": "math", "api_key": 1234567890123})
    assert "1234567890123" not in refused.value.message


@pytest.mark.parametrize(
    "start", ["https://user:secret@site.test/", "HTTP://token@site.test?q", " http://:x@site.test"]
)
def test_a_start_address_with_a_login_is_refused(start: str, tmp_path: Path) -> None:
    assert has_login(start)
    with pytest.raises(ConfigError) as refused:
        given_settings(SolveSettings, {"domain": "web", "problem": "p", "start": start})
    assert (refused.value.code, "secret@" in refused.value.message) == ("bad_config", False)
    file = tmp_path / "tasks.csv"
    file.write_text(f"question,answer,start\nWho?,Ada,{start}\n")
    with pytest.raises(ConfigError) as refused:
        WebDomain().read(file)
    assert "secret@" not in refused.value.message


@pytest.mark.parametrize("start", ["", "https://site.test/@name", "https://site.test/?mail=a@b.test", "site-map"])
def test_a_start_address_may_hold_an_at_sign(start: str) -> None:
    assert given_settings(SolveSettings, {"domain": "web", "problem": "p", "start": start}).start == start
