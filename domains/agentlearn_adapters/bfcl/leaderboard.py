"""What is used of the package `bfcl-eval`: its data, its checker and its names of categories.

The package pins versions that exclude ours and imports the clients of thirty services. Its checker needs none of them:
it reads one fact of a model's configuration, which stands in for the module with all of them while the checker is
imported. Its settings module makes folders when it is imported; they are made in a temporary folder.
"""

import atexit
import importlib
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition

from agentlearn.errors import ConfigError, MissingExtra
from agentlearn_adapters.foreign_domain import unknown

INSTALL = "pip install 'agentlearn-lib[bfcl]' and then pip install --no-deps bfcl-eval==2026.3.23"
_MODEL = "agentlearn"
_CONFIGURATIONS = "bfcl_eval.constants.model_config"
_ALIASES = {"simple": "simple_python"}
_PROJECT_ROOT = "BFCL_PROJECT_ROOT"


def categories_of(name: str) -> tuple[str, ...]:
    """Return the categories that a name stands for: one, or those of a collection. Raises ConfigError."""
    mapping = _package().mapping
    single = tuple(mapping.SINGLE_TURN_CATEGORY)
    known = _ALIASES.get(name, name)
    chosen = tuple(mapping.TEST_COLLECTION_MAPPING.get(known, (known,)))
    if set(chosen) <= set(single):
        return chosen
    if known in {*mapping.TEST_COLLECTION_MAPPING, *mapping.ALL_CATEGORIES}:
        raise ConfigError(
            f"the category {name!r} of bfcl-eval runs its functions over several turns, which this adapter does not do;"
            f" choose a category with one turn: {', '.join(repr(one) for one in single)}",
            code="unsupported_category",
        )
    collections = [one for one, members in mapping.TEST_COLLECTION_MAPPING.items() if set(members) <= set(single)]
    raise unknown("bfcl category", name, [*single, *collections], "choose one of these")


def entries(category: str) -> Iterable[tuple[dict[str, Any], Any]]:
    """Return the tasks of a category with their expected calls; None where no calls are compared."""
    utils = _package().utils
    tasks = utils.load_dataset_entry(category, include_language_specific_hint=False)
    gold = [None] * len(tasks)
    if not utils.is_relevance_or_irrelevance(category):
        gold = [one["ground_truth"] for one in utils.load_ground_truth_entry(category)]
    return zip(tasks, gold, strict=True)


def _functions_for_models(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a task's functions with the hints on languages that bfcl-eval gives to models."""
    entry = {"id": fields["id"], "function": deepcopy(fields["functions"])}
    return _package().utils.add_language_specific_hint_to_function_doc([entry])[0]["function"]


def _type_names() -> Mapping[str, str]:
    """Return JSON Schema's name of each type that bfcl-eval uses."""
    return _package().types.GORILLA_TO_OPENAPI


def check(fields: Mapping[str, Any], calls: Sequence[Mapping[str, Any]], gold: Any) -> str:
    """Return why the calls are wrong, in the checker's words; empty when they are right."""
    category = fields["category"]
    empty = not calls or not all(isinstance(arguments, dict) for call in calls for arguments in call.values())
    if "irrelevance" in category:
        return "" if empty else f"A function was called, and none fits the question: {_names(calls)}."
    if empty and calls:
        return f"The arguments of a call are not a JSON object: {_names(calls)}."
    if "relevance" in category:
        return "No function was called, and one fits the question." if empty else ""
    package = _package()
    language = package.enums.Language
    result = package.checker.ast_checker(
        fields["functions"],
        [dict(call) for call in calls],
        gold,
        {"simple_java": language.JAVA, "simple_javascript": language.JAVASCRIPT}.get(category, language.PYTHON),
        category,
        _MODEL,
    )
    return "" if result["valid"] else "; ".join(_words(result["error"])) or str(result.get("error_type", "wrong"))


def _names(calls: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(repr(name) for call in calls for name in call)


def _words(errors: Iterable[Any]) -> Iterable[str]:
    """Yield the checker's messages, which may be nested."""
    for error in errors:
        if isinstance(error, Mapping):
            for one in error.values():
                yield from _words(one["sub_error"] if isinstance(one, Mapping) and "sub_error" in one else [one])
        else:
            yield str(error)


class _Package(SimpleNamespace):
    """The modules of bfcl-eval that are used."""

    mapping: Any
    utils: Any
    types: Any
    enums: Any
    checker: Any


@cache
def _package() -> _Package:
    if find_spec("bfcl_eval") is None:
        raise MissingExtra(f"the adapter 'bfcl:' needs the package bfcl-eval: {INSTALL}")
    try:
        with _folders_elsewhere(), _one_model():
            return _Package(
                mapping=importlib.import_module("bfcl_eval.constants.category_mapping"),
                utils=importlib.import_module("bfcl_eval.utils"),
                types=importlib.import_module("bfcl_eval.constants.type_mappings"),
                enums=importlib.import_module("bfcl_eval.constants.enums"),
                checker=importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker"),
            )
    except ImportError as error:
        raise MissingExtra(f"the adapter 'bfcl:' cannot import bfcl-eval ({error}): {INSTALL}") from error


@contextmanager
def _folders_elsewhere() -> Generator[None]:
    """Let bfcl-eval make its folders in a temporary folder, unless the user chose one."""
    if _PROJECT_ROOT in os.environ:
        yield
        return
    folder = tempfile.mkdtemp(prefix="agentlearn-bfcl-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[_PROJECT_ROOT] = folder
    try:
        yield
    finally:
        del os.environ[_PROJECT_ROOT]


@contextmanager
def _one_model() -> Generator[None]:
    """Let the checker read one configuration: a model that sees underscores for dots in the names of functions."""
    if _CONFIGURATIONS in sys.modules:
        sys.modules[_CONFIGURATIONS].MODEL_CONFIG_MAPPING[_MODEL] = SimpleNamespace(underscore_to_dot=True)
        yield
        return
    module: Any = ModuleType(_CONFIGURATIONS)
    module.MODEL_CONFIG_MAPPING = {_MODEL: SimpleNamespace(underscore_to_dot=True)}
    sys.modules[_CONFIGURATIONS] = module
    try:
        yield
    finally:
        del sys.modules[_CONFIGURATIONS]


def messages_of(messages: Sequence[Mapping[str, str]]) -> list[ModelMessage]:
    """Return the messages of a task, in order."""
    return [_message(one["role"], one["content"]) for one in messages]


def _message(role: str, content: str) -> ModelMessage:
    match role:
        case "assistant":
            return ModelResponse(parts=[TextPart(content)])
        case "system" | "developer":
            return ModelRequest(parts=[SystemPromptPart(content)])
        case _:
            return ModelRequest(parts=[UserPromptPart(content)])


def tools_of(fields: Mapping[str, Any]) -> list[ToolDefinition]:
    """Return the functions of a task as tools. Model services refuse dots in names, so they become underscores."""
    return [
        ToolDefinition(
            name=function["name"].replace(".", "_"),
            description=function["description"],
            parameters_json_schema=json_schema(function["parameters"], _type_names()),
        )
        for function in _functions_for_models(fields)
    ]


def json_schema(parameters: Mapping[str, Any], types: Mapping[str, str], *, of_item: bool = False) -> dict[str, Any]:
    """Return the parameters of a function with types as JSON Schema names them; unknown types become strings.

    types: JSON Schema's name of each type that bfcl-eval uses. of_item: whether this describes the items of a list.
    """
    schema = deepcopy(dict(parameters))
    named = schema.get("type", "string")
    if named == "float" and not of_item:
        schema["format"] = "float"
        schema["description"] = f"{schema.get('description', '')} This is a float type value."
    schema["type"] = types.get(named, "string")
    if schema["type"] == "object" and "properties" in schema:
        schema["properties"] = {name: json_schema(one, types) for name, one in schema["properties"].items()}
    elif schema["type"] == "array" and "items" in schema:
        schema["items"] = json_schema(schema["items"], types, of_item=True)
    return schema


def calls_of(response: ModelResponse) -> list[dict[str, Any]]:
    """Return the tool calls, each as `{name: arguments}`. Arguments that are no JSON object stay as they are."""
    return [{part.tool_name: _arguments(part)} for part in response.parts if isinstance(part, ToolCallPart)]


def _arguments(call: ToolCallPart) -> Any:
    try:
        return call.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError, TypeError):
        return call.args
