"""Names with a prefix load a domain, errors are one sentence, and the names of results are valid names of libraries."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.config import LearnSettings
from agentlearn.config.defaults import name_of_result
from agentlearn.domain.base import is_domain, load_domain
from agentlearn.errors import ConfigError
from tests.support.cases import cases

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # in code of inspect_ai
EXAMPLES = Path(__file__).parent / "inspect_examples.py"


LIBRARY_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("inspect:", "bad_config"),
        ("inspect:nope/nothing", "bad_config"),
        ("inspect:missing.py@sums", "bad_config"),
        (f"inspect:{EXAMPLES}@nope", "bad_config"),
        (f"inspect:{EXAMPLES}", "bad_config"),
        (f"inspect:{EXAMPLES}@sandboxed", "bad_config"),
        (f"inspect:{__file__}", "bad_config"),
    ],
)
def test_a_name_that_cannot_be_used_is_one_sentence(name: str, code: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_domain(name)
    assert raised.value.code == code
    assert "; " in str(raised.value)


def test_adapters_are_domains_by_prefix_only() -> None:
    assert is_domain("inspect:any")
    assert is_domain("math")
    assert not is_domain("inspect")
    assert not is_domain("nothing:here")


@pytest.mark.parametrize(
    ("domain", "name"),
    cases(__file__, "the_name_of_a_library_follows_from_the_domain"),
)
def test_the_name_of_a_library_follows_from_the_domain(domain: str, name: str) -> None:
    assert LearnSettings(domain=domain).library_name == name_of_result(domain) == name


@given(st.text(), st.sampled_from(["inspect", "bfcl", "verifiers"]))
def test_every_name_with_a_prefix_gives_a_library_name(rest: str, prefix: str) -> None:
    assert LIBRARY_NAME.fullmatch(name_of_result(f"{prefix}:{rest}"))
