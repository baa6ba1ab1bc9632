"""`agentlearn hybrid`."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from agentlearn.cli.ask import require_extras
from agentlearn.cli.options import DryRunOption, JsonOption, LogOption, ResumeOption, YesOption, setting_options
from agentlearn.cli.output import console, plan_lines, print_json, print_result, show_logs
from agentlearn.config import DEFAULT_STORE, packaged_recipe, read_recipe
from agentlearn.domain.chosen_settings import GivenSettings
from agentlearn.errors import ConfigError
from agentlearn_evals.hybrid.hybrid_settings import HybridSettings, hybrid_settings, recipe_name

_OPTIONS = ("model", "name", "rounds", "margin", "evidence", "removals", "removal_rollouts", "seed", "store", "otel")


@setting_options(HybridSettings, only=_OPTIONS)
def hybrid(
    what: Annotated[
        str | None, Parameter(help="A domain that has a recipe `hybrid` (math), or a recipe (.yaml, math/hybrid).")
    ] = None,
    /,
    *,
    given: GivenSettings,
    resume: ResumeOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    json: JsonOption = False,
    log: LogOption = "error",
) -> None:
    """Learn lessons, distil them into the weights of a local model, and measure both on held-out tasks.

    Then each lesson is removed in turn, and lessons that the trained model no longer needs are proposed for parking.
    Each stage is a run of its own. With --rounds, further rounds start from what a round made.
    """
    from agentlearn.cli.ask import ask_before_spending
    from agentlearn.train.serving.local import need_extra
    from agentlearn_evals.hybrid.hybrid_report import print_hybrid
    from agentlearn_evals.hybrid.hybrid_run import HybridRecord, HybridRun, plan_hybrid

    show_logs(log)
    if resume is not None:
        _refuse_changes(resume, what, given, dry_run=dry_run)
        record = HybridRecord.resumed(resume, Path(given.get("store", DEFAULT_STORE)))
    else:
        settings = hybrid_settings(_fields(what, given))
        plan = plan_hybrid(settings)
        if dry_run:
            print_result(plan, plan_lines(plan.lines()), json=json)
        else:
            need_extra("training weights", "peft", "accelerate")
        if plan.train.refusals:
            train = "the training would stop before it samples anything" if dry_run else "train"
            raise ConfigError(f"{train}: {plan.train.refusals[0]}", code="would_be_refused")
        if dry_run:
            return
        learning = settings.learn_stage(model=settings.bare_model, library=None)
        require_extras((learning.model, learning.reflector_name), otel=settings.otel)
        ask_before_spending(learning, yes=yes)
        record = HybridRecord.new(settings)
    report = HybridRun(record, console(to_stderr=json)).to_end()
    if json:
        print_json(report)
    else:
        console().print()
        print_hybrid(report, record.settings, console())


def _fields(what: str | None, given: GivenSettings) -> dict[str, Any]:
    """All fields of a recipe, with options over them."""
    from agentlearn.domain.chosen_settings import with_domain

    if what is None:
        raise ConfigError(
            "say what to run: a domain that has a recipe `hybrid` (agentlearn hybrid math), or a recipe", code="no_task"
        )
    name = recipe_name(what)
    path = packaged_recipe(name) or Path(name)
    if path.suffix not in {".yaml", ".yml"}:
        raise ConfigError(
            f"{what!r} is neither a domain nor a recipe; write a recipe such as hybrid.yaml with `domain`, `model`,"
            " `learn`, `train` and `compare`",
            code="no_task",
        )
    return with_domain(given.over(read_recipe(path)), what)


def _refuse_changes(resume: str, what: str | None, given: GivenSettings, *, dry_run: bool) -> None:
    fixed = [f"--{name.replace('_', '-')}" for name in given.options if name != "store"]
    fixed += ["--dry-run"] * dry_run + [repr(what)] * (what is not None)
    if fixed:
        raise ConfigError(
            f"--resume continues run {resume!r} with the settings it was started with; leave out {', '.join(fixed)}",
            code="fixed_setting",
        )
