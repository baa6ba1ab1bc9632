"""A GGUF file becomes a checkpoint with the same weights, tokens, chat template and end of answers, or is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("gguf")

from agentlearn.cli.app import run  # noqa: E402
from agentlearn.errors import ConfigError  # noqa: E402
from agentlearn.train.fetching import conversion  # noqa: E402
from agentlearn.train.fetching.fetch import convert_file  # noqa: E402
from agentlearn.train.serving.local import (  # noqa: E402
    generation_ends,
    load_for_serving,
)
from tests.support.tiny_gguf import (  # noqa: E402
    END,
    reference_tokenizer,
    tiny_llama,
    write_gguf,
)
from tests.support.tiny_model import spread, tiny_tokenizer  # noqa: E402

TEXTS = (
    "What is 100 + 1,000?  Then   7\n\n\t 8 00",
    "<|im_start|>user\nthe tool<|im_end|>\n<tool_call>{}</tool_call>",
    "naïve café 北京 ½ ٣٤",
    "",
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="module")
def folder(file: Path) -> Path:
    convert_file(file, file.parent / "made")
    return file.parent / "made"


def test_the_weights_and_the_logits_are_those_of_the_file(folder: Path) -> None:
    network, made = tiny_llama(), load_for_serving(str(folder)).model
    weights = made.state_dict()
    assert weights.keys() == network.state_dict().keys()
    assert all(torch.equal(weights[name], one) for name, one in network.state_dict().items())
    ids = torch.arange(40)[None]
    with torch.no_grad():
        assert torch.allclose(made(ids).logits, network(ids).logits, atol=1e-5)


@pytest.mark.parametrize("splitting", ["smollm", "gpt-2"])
def test_texts_become_the_tokens_that_the_file_describes(splitting: str, tmp_path: Path) -> None:
    convert_file(write_gguf(tmp_path / "tiny.gguf", splitting=splitting), tmp_path / "made")
    made, reference = load_for_serving(str(tmp_path / "made")).tokenizer, reference_tokenizer(splitting)
    for text in TEXTS:
        assert made.encode(text) == reference.encode(text)
        assert made.decode(made.encode(text)) == text
    assert reference_tokenizer("smollm").encode("100") != reference_tokenizer("gpt-2").encode("100")


def test_an_answer_ends_where_the_file_says(folder: Path) -> None:
    loaded = load_for_serving(str(folder))
    end = loaded.tokenizer.convert_tokens_to_ids(END)
    assert generation_ends(loaded.model.generation_config) == {end}
    assert loaded.tokenizer.eos_token == END
    assert loaded.tokenizer.model_max_length == 512


def test_other_files_in_its_folder_are_not_used(file: Path, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(file.read_bytes())
    code = {"auto_map": {"AutoTokenizer": ["own.Own", None], "AutoConfig": "own.Own"}, "chat_template": "other"}
    for name in ("tokenizer_config.json", "config.json", "generation_config.json"):
        (tmp_path / name).write_text(json.dumps({**code, "model_type": "own", "eos_token_id": 0}))
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    convert_file(tmp_path / "tiny.gguf", tmp_path / "made")
    assert not (tmp_path / "ran").exists()
    for name in ("config.json", "tokenizer_config.json", "chat_template.jinja", "model.safetensors"):
        assert (tmp_path / "made" / name).read_bytes() == (folder / name).read_bytes()


def test_the_command_converts_a_file(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "models" / "my model"
    assert run(["models", "convert", str(file), str(made)]) == 0
    printed = capsys.readouterr().out
    assert f"wrote {made}" in printed
    assert "licence: Apache-2.0" in printed
    assert load_for_serving(str(made)).name == "my model"
    assert run(["models", "convert", str(file), str(made), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "exists"
    assert run(["models", "convert", str(file), str(tmp_path / "second"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["record"]["file"] == "tiny.gguf"


def refused(file: Path) -> ConfigError:
    """Convert the file, which must be refused, and must leave nothing."""
    before = sorted(file.parent.iterdir())
    with pytest.raises(ConfigError) as found:
        convert_file(file, file.parent / "made")
    assert sorted(file.parent.iterdir()) == before
    assert "\n" not in found.value.message
    return found.value


def test_a_rule_of_splitting_that_is_not_known_is_refused(tmp_path: Path) -> None:
    error = refused(write_gguf(tmp_path / "tiny.gguf", splitting="of-nobody"))
    assert error.code == "bad_config"
    assert "splits texts by the rule 'of-nobody'" in error.message


@pytest.mark.parametrize("size", [0, 3, 200, 20_000, -100])
def test_a_file_that_is_cut_is_refused(file: Path, tmp_path: Path, size: int) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(file.read_bytes()[:size])
    assert "cannot be read as a GGUF file" in refused(cut).message


def changed(load: Any, change: Any) -> Any:
    def loaded(*given: Any, **options: Any) -> Any:
        found = load(*given, **options)
        change(found)
        return found

    return loaded


def test_a_conversion_with_other_results_is_refused(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.gguf").symlink_to(file)

    def other_rope(model: Any) -> None:
        model.model.rotary_emb.inv_freq.mul_(2)

    with monkeypatch.context() as patch:
        patch.setattr(conversion.ModelSource, "load", changed(conversion.ModelSource.load, other_rope))
        assert "it computes other logits" in refused(tmp_path / "tiny.gguf").message

    def other_end(model: Any) -> None:
        model.generation_config.eos_token_id = 3

    with monkeypatch.context() as patch:
        patch.setattr(conversion.ModelSource, "load", changed(conversion.ModelSource.load, other_end))
        assert "other tokens end an answer" in refused(tmp_path / "tiny.gguf").message


def test_a_model_with_a_buffer_in_its_own_number_format_is_converted(file: Path, tmp_path: Path) -> None:
    """Gemma 3 scales embeddings by a buffer, 25.25 in a model made in bf16 and 25.298 in one in fp32."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    tokenizer = reference_tokenizer()
    tokenizer.chat_template = tiny_tokenizer().chat_template
    config = Gemma3TextConfig(
        vocab_size=len(tokenizer),
        hidden_size=44,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=512,
        eos_token_id=tokenizer.convert_tokens_to_ids(END),
    )
    network = Gemma3ForCausalLM(config).eval()
    spread(network, 0, width=1.0)
    scale = network.model.embed_tokens.embed_scale
    assert scale != scale.bfloat16()
    gguf = conversion.read_gguf(file)
    logits = gguf.write(network, tokenizer, tmp_path)
    assert gguf.fault(logits, tmp_path) == ""
    loaded = load_for_serving(str(tmp_path)).model
    ids = torch.tensor([tokenizer.encode("What is 23 + 18? It is 41.")])
    with torch.no_grad():
        assert torch.allclose(loaded(ids).logits, logits, atol=1e-4)
