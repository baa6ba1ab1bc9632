"""Settings and recipes: errors are one sentence, and secrets come only from environment variables."""

from pathlib import Path

import pytest

from agentlearn import LearnSettings
from agentlearn.config import SolveSettings, learn_settings, read_recipe
from agentlearn.errors import ConfigError
from agentlearn.train.settings import train_settings


def test_numbers_out_of_range(subtests: pytest.Subtests) -> None:
    for field, value, sentence in (
        ("epochs", 0, "epochs is 0, but should be greater than or equal to 1"),
        ("temperature", 9.5, "temperature is 9.5, but should be less than or equal to 2"),
        ("test_share", 1.0, "test_share is 1.0, but should be less than 1"),
        ("max_cost_usd", 0, "max_cost_usd is 0, but should be greater than 0"),
        ("seed", 2**40, "seed is 1099511627776, but should be less than or equal to 2147483647"),
    ):
        with subtests.test(field):
            with pytest.raises(ConfigError) as caught:
                learn_settings({"domain": "math", field: value})
            assert str(caught.value).startswith(sentence)
            assert (caught.value.code, caught.value.exit_status) == ("bad_config", 2)


def test_an_unknown_setting_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"there is no setting .epoch.; did you mean .epochs."):
        learn_settings({"domain": "math", "epoch": 3})


def write(folder: Path, text: str) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(text)
    return path


def test_a_recipe_with_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "s3cret")
    path = write(tmp_path, "domain: math\nepochs: 2\napi_key: ${MY_KEY}\ndata: tasks.jsonl\n")
    settings = learn_settings(read_recipe(path))
    assert settings.api_key is not None
    assert settings.api_key.get_secret_value() == "s3cret"
    assert settings.data == str(tmp_path / "tasks.jsonl")
    assert "s3cret" not in settings.resolved()
    assert "s3cret" not in repr(settings)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("domain: ${HOME}\n", "environment variables are read in secret fields only"),
        ("domain: math\napi_key: ${NOT_SET_ANYWHERE}\n", "needs the environment variable 'NOT_SET_ANYWHERE'"),
        ("- math\n", "must hold fields such as 'domain: math', not a list"),
        ("domain: [math\n", "is not YAML"),
        ("domain: math\nlimit: " + "9" * 5_000, "has a number of 5,000 characters in line 2; write one of at most 100"),
        ("domain: math\nlimit: -0x" + "f" * 5_000, "has a number of 5,003 characters in line 2"),
        ("domain: " + "[" * 5_000, "nests more than 32 values in line 1; no setting is that deep"),
        ("a: &a [1, 1]\ndomain: [*a, *a]\n", "has an anchor or an alias in line 1; write the value itself there"),
        ("domain: math\nlimit: 2024-13-45\n", "has a value that cannot be read: month must be in 1..12; put texts"),
    ],
)
def test_bad_recipes(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_recipe(write(tmp_path, text))
    assert sentence in str(caught.value)


def test_the_store_variable_is_the_default_of_settings_made_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that such a run publishes is where `Experiences` looks for it."""
    monkeypatch.setenv("AGENTLEARN_STORE", "/data/tenant")
    assert LearnSettings(domain="math").store == Path("/data/tenant")
    assert SolveSettings(domain="math", problem="2 + 2?").store == Path("/data/tenant")
    assert LearnSettings(domain="math", store=Path("own")).store == Path("own")
    monkeypatch.setenv("AGENTLEARN_STORE", "")
    assert LearnSettings(domain="math").store == Path(".agentlearn")


@pytest.mark.parametrize("word", ["none", "None", " null "])
def test_none_in_words_is_none_where_a_setting_may_be_none_and_is_no_text(word: str) -> None:
    gradient = {"max_grad_norm": word, "loss_settings.delta": word, "distillation.stop_at_kl": word, "packing": word}
    train = train_settings({"domain": "math", "margin": word, "max_minutes": word, "gradient": gradient})
    assert train.gradient.max_grad_norm is train.margin is train.max_minutes is train.gradient.packing is None
    assert getattr(train.gradient.loss_settings, "delta", 0) is train.gradient.distillation.stop_at_kl is None
    learn = learn_settings({"domain": "math", "temperature": word, "top_p": word, "library": word, "name": word})
    assert learn.temperature is learn.top_p is None
    assert learn.library == learn.name == word
    with pytest.raises(ConfigError):
        train_settings({"domain": "math", "batch_size": word})


def test_a_lab_model_is_measured_with_two_rollouts_of_each_held_out_task() -> None:
    assert LearnSettings(domain="math").eval_rollouts == 2
    assert LearnSettings(domain="math", eval_rollouts=4).eval_rollouts == 4
    assert LearnSettings(domain="math", model="sim:novice").eval_rollouts == 4
    assert LearnSettings(domain="tasks.csv", reward="number").eval_rollouts == 4
