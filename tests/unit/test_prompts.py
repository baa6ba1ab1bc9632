"""Prompt files: every hole is filled, nothing is read twice, LaTeX passes through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import ConfigError
from agentlearn.prompts import Prompt, load_prompt
from agentlearn.types.trajectory import PromptRef


def prompt(text: str) -> Prompt:
    return Prompt(ref=PromptRef(name="t", version=1, sha256="0"), text=text)


@given(st.text())
def test_inserted_text_is_never_read_as_a_template(text: str) -> None:
    assert prompt("[{{ a }}|{{ b }}]").fill({"a": text + "{{ b }}", "b": "B"}) == f"[{text}{{{{ b }}}}|B]"


@pytest.mark.parametrize("values", [{}, {"a": "x", "b": "y"}])
def test_missing_and_unused_values_are_refused(values: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="has wrong values"):
        prompt("{{ a }}").fill(values)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match="there is no prompt 'nothing' version 7"):
        load_prompt("nothing", 7)


RELEASED = {
    ("audit", 1): "b35e5b76979db816f9d87a6ebe52d86d27ed5c56feb12c1621bec6092192e870",
    ("judge", 1): "266cb97c547a21420262a49b12bb7465bb81a5100145fe50d3cb7532cbfefaa1",
    ("own_python", 1): "87041d32824702fa9711e6848a2930a0e7d5eb7dc6a467afb6f2d7b54b21c6ee",
    ("own_solve", 1): "e054a35f97b2e986cefab2eb3ee02c66d08ec7b25e43963f4d1c0187e503c4ab",
    ("repair", 1): "7fcc8da4a30d31a9ba7f07f886436953f0c25d8a6f45adea6db9e9e022dafd53",
    ("summarise", 1): "abc10179b4dc9f0cb3b551162dc1253b3560bb34a15f49cb78405c2128abc6ac",
    ("compare", 1): "f8ce8237310cf7ee50ac7f28bd16000a2de9ce867ad3469a7cdb6ae915e4a62e",
    ("tools_in_words", 1): "5c002ad9fd24d030ded255ecbfd552f084f0bf0580b363c5ace88e01504142ae",
    ("consolidate", 1): "58bf8f7941345ff22532ae99c193e3d5d11677a702b44456823884780ea7e6e7",
}
"""A released file is not edited: a change here means that a new version is due."""


def test_a_released_prompt_is_never_edited(subtests: pytest.Subtests) -> None:
    for name, version in RELEASED:
        with subtests.test(repr((name, version))):
            assert load_prompt(name, version).ref.sha256 == RELEASED[name, version]
