"""Choosing options of a native drop-down list or list box (`<select>`), by label or value."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentlearn_web.browser.act_result import ActResult

if TYPE_CHECKING:
    from playwright.async_api import Locator

_MAX_OPTIONS = 20_000
_LIST = """(named, most) => {
  const one = named instanceof HTMLLabelElement && named.control || named;
  if (!(one instanceof HTMLSelectElement)) return null;
  const off = (option) => option.disabled || option.parentElement?.disabled === true;
  const options = [...one.options].slice(0, most).map((option) => [option.label, option.value, off(option)]);
  return { options, multiple: one.multiple, disabled: one.disabled };
}"""
_NO_LIST = ActResult(
    "no_list", "nothing was chosen: this is not a list of the browser's own; click it, and then the options it shows"
)


@dataclass(frozen=True, slots=True)
class ListOption:
    """One option of a list."""

    label: str
    value: str
    disabled: bool = False


async def choose_options(element: "Locator", wanted: Sequence[str], *, limit_ms: float) -> ActResult:
    """Choose exactly these options of a list, each by label or value. What was chosen before is no longer chosen.

    Raises Playwright's error if the element is gone.
    """
    found: dict[str, Any] | None = await element.evaluate(_LIST, _MAX_OPTIONS, timeout=limit_ms)
    if found is None:
        return _NO_LIST
    if found["disabled"]:
        return ActResult("not_actionable", "nothing was chosen: it is disabled")
    if not found["multiple"] and len(wanted) != 1:
        return ActResult("no_option", f"nothing was chosen: the list takes one option, and {len(wanted)} were given")
    options = [ListOption(*one) for one in found["options"]]
    chosen: list[int] = []
    for text in wanted:
        index = option_index(options, text)
        if index is None:
            which = f" {text[:80]!r}" if len(wanted) > 1 else " of that name"
            return ActResult("no_option", f"the list has no option{which}; give one as the page shows it")
        if options[index].disabled:
            return ActResult("not_actionable", f"nothing was chosen: the option {text[:80]!r} is disabled")
        chosen.append(index)
    await element.select_option(index=chosen, timeout=limit_ms)
    return ActResult()


def option_index(options: Sequence[ListOption], text: str) -> int | None:
    """Return the index of an option: exact label or value first, then the label with any case and spacing."""
    labels, wanted = [_normal_space(one.label) for one in options], _normal_space(text)
    for given, offered in ((wanted, labels), (text, [one.value for one in options])):
        if given in offered:
            return offered.index(given)
    folded = [label.casefold() for label in labels]
    return folded.index(wanted.casefold()) if wanted.casefold() in folded else None


def _normal_space(phrase: str) -> str:
    return " ".join(phrase.split())
