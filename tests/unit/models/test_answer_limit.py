"""Models on this machine have a limit of answers by default: by the model's context and the domain's usual answers."""

import json
from pathlib import Path

import pytest

from agentlearn.models.call_settings import CallSettings, context_of, local_answer_limit


def model(folder: Path, **config: object) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


@pytest.mark.parametrize(
    ("context", "usual", "tokens", "stage"),
    [(32_768, 760, 1024, 8192), (2048, 760, 512, 512), (32_768, 120, 512, 8192), (32_768, 3_000, 4096, 8192)],
)
def test_the_limit_follows_from_context_and_usual_answers(
    tmp_path: Path, context: int, usual: int, tokens: int, stage: int
) -> None:
    for prefix in ("local", "vllm"):
        limit = local_answer_limit(f"{prefix}:{model(tmp_path, max_position_embeddings=context)}", usual)
        assert limit is not None
        assert (limit.tokens, limit.stage_tokens, limit.context) == (tokens, stage, context)
        sent = limit.applied(CallSettings({"top_p": 0.9}, fold_system=True))
        assert (sent.added, sent.fold_system) == ({"top_p": 0.9, "max_tokens": tokens}, True)
        assert limit.applied(CallSettings(), stage=True).added == {"max_tokens": stage}


def test_the_context_is_found_for_adapters_and_nested_configs_and_may_be_unknown(tmp_path: Path) -> None:
    base = model(tmp_path / "base", text_config={"max_position_embeddings": 4096}, max_position_embeddings=7)
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base}))
    assert (context_of(base), context_of(str(adapter))) == (4096, 4096)
    assert context_of(model(tmp_path / "gpt2", n_positions=1024)) == 1024
    (tmp_path / "gpt2" / "config.json").write_text("[1")
    assert context_of(str(tmp_path / "gpt2")) is None
    unknown = local_answer_limit("vllm:owner/name", 760)
    assert unknown is not None
    assert (unknown.tokens, unknown.stage_tokens, unknown.context) == (1024, 4096, None)
