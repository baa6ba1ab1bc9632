"""`bfcl:CATEGORY`: the single-turn tasks of the Berkeley Function Calling Leaderboard, judged by its own checker.

The functions of a task are offered to the model as tools. The calls of its one response are the answer; nothing is
executed. Data and checker are those of the installed package `bfcl-eval`.

The package pins versions that exclude ours and imports the clients of thirty services. Its checker needs none of them:
it reads one fact of a model's configuration, which stands in for the module with all of them while the checker is
imported. Its settings module makes folders when it is imported; they are made in a temporary folder.
"""

import atexit
import importlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
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

from agentlearn.domain.base import Answer, RolloutShape, Work, Worked
from agentlearn.errors import ConfigError, MissingExtra
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Verdict
from agentlearn_adapters.foreign_domain import ForeignDomain, ModelCalls, reply_text, undecided, unknown, verdict_of

_INSTALL = "pip install 'agentlearn-lib[bfcl]' and then pip install --no-deps bfcl-eval==2026.3.23"
_MODEL = "agentlearn"
_CONFIGURATIONS = "bfcl_eval.constants.model_config"
_ALIASES = {"simple": "simple_python"}
_PROJECT_ROOT = "BFCL_PROJECT_ROOT"


class BfclDomain(ForeignDomain):
    """Function calls of one category, or of a collection such as `live`."""

    def __init__(self, category: str, categories: Sequence[str]) -> None:
        self.name = f"bfcl:{category}"
        self.description = f"function calls of the category {category!r} of bfcl-eval"
        self.categories = tuple(categories)

    def all_tasks(self) -> tuple[Task, ...]:
        """Return the tasks of all categories; the family of a task is its category."""
        utils, tasks = _package().utils, list[Task]()
        for category in self.categories:
            entries = utils.load_dataset_entry(category, include_language_specific_hint=False)
            answers = [None] * len(entries)  # where no calls are compared
            if not utils.is_relevance_or_irrelevance(category):
                gold = [one["ground_truth"] for one in utils.load_ground_truth_entry(category)]
                answers = [json.dumps(one, ensure_ascii=False) for one in gold]
            for entry, answer in zip(entries, answers, strict=True):
                messages, given = entry["question"][0], {"id": entry["id"], "category": category}
                task = Task.of(
                    self.name,
                    "\n\n".join(one["content"] for one in messages if one["content"].strip()) or entry["id"],
                    answer,
                    family=category,
                    source=f"bfcl-eval:{entry['id']}",
                    fields={**given, "messages": messages, "functions": entry["function"]},
                )
                tasks.append(task)
        return tuple(tasks)

    def question(self, task: Task) -> str:
        """Return the problem. Raises ConfigError for a problem without functions."""
        if "functions" not in task.fields:
            raise ConfigError(
                f"{self.name!r} needs the functions of a task, and the problem {task.problem!r} has none; use the"
                " lessons in your own agent with Experiences"
            )
        return task.problem

    async def work(self, work: Work) -> Worked:
        """Ask the model once, with the task's functions as tools, with the hints that bfcl-eval gives to models."""
        self.question(work.task)
        package, fields, calls = _package(), work.task.fields, ModelCalls(work)
        entry = {"id": fields["id"], "function": deepcopy(fields["functions"])}
        tools = [
            ToolDefinition(
                name=function["name"].replace(".", "_"),  # model services refuse dots in names
                description=function["description"],
                parameters_json_schema=json_schema(function["parameters"], package.types.GORILLA_TO_OPENAPI),
            )
            for function in package.utils.add_language_specific_hint_to_function_doc([entry])[0]["function"]
        ]
        response = await calls.ask([_message(one["role"], one["content"]) for one in fields["messages"]], tools)
        return Worked(response)

    def answer_of(self, output: ModelResponse) -> Answer:
        """Return the calls as JSON: a list of objects with a function's name and its arguments.

        Arguments that are no JSON object stay as they are.
        """
        calls: list[dict[str, Any]] = []
        for part in output.parts:
            if isinstance(part, ToolCallPart):
                try:
                    calls.append({part.tool_name: part.args_as_dict(raise_if_invalid=True)})
                except (ValueError, AssertionError, TypeError):
                    calls.append({part.tool_name: part.args})
        return Answer(text=reply_text(output), answer=json.dumps(calls, ensure_ascii=False))

    def answer_key(self, answer: str) -> str | None:
        """Return the calls as JSON with sorted keys."""
        try:
            return json.dumps(json.loads(answer), sort_keys=True)
        except ValueError:
            return answer

    def verify(self, task: Task, trajectory: Trajectory) -> Verdict:
        """Judge the calls with the checker of bfcl-eval; its error messages are the reason."""
        if "functions" not in task.fields:
            return undecided("the task has no functions")
        gold = None if task.answer is None else json.loads(task.answer)
        why = _error_in(task.fields, json.loads(trajectory.answer or "[]"), gold)
        return verdict_of(0.0 if why else 1.0, why)

    def rollout_shape(self, data: str | None = None) -> RolloutShape:
        """Return one call with a few functions."""
        return RolloutShape(turns=1, prompt=450, turn_out=60, tool_result=0)


def adapter(category: str) -> BfclDomain:
    """Return the domain of a category, or of a collection of categories. Raises ConfigError, MissingExtra."""
    mapping = _package().mapping
    single, collections = tuple(mapping.SINGLE_TURN_CATEGORY), mapping.TEST_COLLECTION_MAPPING
    known = _ALIASES.get(category, category)
    chosen = tuple(collections.get(known, (known,)))
    if set(chosen) <= set(single):
        return BfclDomain(category, chosen)
    if known in {*collections, *mapping.ALL_CATEGORIES}:
        raise ConfigError(
            f"the category {category!r} of bfcl-eval runs its functions over several turns, which this adapter does not"
            f" do; choose a category with one turn: {', '.join(repr(one) for one in single)}"
        )
    fitting = [one for one, members in collections.items() if set(members) <= set(single)]
    raise unknown("bfcl category", category, [*single, *fitting], "choose one of these")


def _error_in(fields: Mapping[str, Any], calls: Sequence[Mapping[str, Any]], gold: Any) -> str:
    """Return why the calls are wrong, in the checker's words; empty when they are right."""
    category, names = fields["category"], ", ".join(repr(name) for call in calls for name in call)
    empty = not calls or not all(isinstance(arguments, dict) for call in calls for arguments in call.values())
    if "irrelevance" in category:
        return "" if empty else f"A function was called, and none fits the question: {names}."
    if empty and calls:
        return f"The arguments of a call are not a JSON object: {names}."
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


def _words(errors: Iterable[Any]) -> Iterable[str]:
    """Yield the checker's messages, which may be nested."""
    for error in errors:
        if isinstance(error, Mapping):
            for one in error.values():
                yield from _words(one["sub_error"] if isinstance(one, Mapping) and "sub_error" in one else [one])
        else:
            yield str(error)


def _message(role: str, content: str) -> ModelMessage:
    match role:
        case "assistant":
            return ModelResponse(parts=[TextPart(content)])
        case "system" | "developer":
            return ModelRequest(parts=[SystemPromptPart(content)])
        case _:
            return ModelRequest(parts=[UserPromptPart(content)])


@cache
def _package() -> Any:
    """Return the modules of bfcl-eval that are used, by short names. Raises MissingExtra.

    It makes its folders in a temporary folder, unless the user chose one. Its checker reads one configuration: a model
    that sees underscores for dots in the names of functions.
    """
    if find_spec("bfcl_eval") is None:
        raise MissingExtra(f"the adapter 'bfcl:' needs the package bfcl-eval: {_INSTALL}")
    own_folder, stands_in = _PROJECT_ROOT not in os.environ, _CONFIGURATIONS not in sys.modules
    if own_folder:
        os.environ[_PROJECT_ROOT] = tempfile.mkdtemp(prefix="agentlearn-bfcl-")
        atexit.register(shutil.rmtree, os.environ[_PROJECT_ROOT], ignore_errors=True)
    if stands_in:
        module: Any = ModuleType(_CONFIGURATIONS)
        module.MODEL_CONFIG_MAPPING = {}
        sys.modules[_CONFIGURATIONS] = module
    sys.modules[_CONFIGURATIONS].MODEL_CONFIG_MAPPING[_MODEL] = SimpleNamespace(underscore_to_dot=True)
    try:
        return SimpleNamespace(
            mapping=importlib.import_module("bfcl_eval.constants.category_mapping"),
            utils=importlib.import_module("bfcl_eval.utils"),
            types=importlib.import_module("bfcl_eval.constants.type_mappings"),
            enums=importlib.import_module("bfcl_eval.constants.enums"),
            checker=importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker"),
        )
    except ImportError as error:
        raise MissingExtra(f"the adapter 'bfcl:' cannot import bfcl-eval ({error}): {_INSTALL}") from error
    finally:
        if own_folder:
            del os.environ[_PROJECT_ROOT]
        if stands_in:
            del sys.modules[_CONFIGURATIONS]


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
