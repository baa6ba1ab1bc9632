"""The MiniWoB++ pages that are used as tasks, and the folder of the installed package that contains them."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from agentlearn.domain.check_result import CheckResult
from agentlearn.errors import MissingExtra

PAGES = (
    *("book-flight", "book-flight-nodelay", "button-delay", "buy-ticket"),
    *("choose-date", "choose-date-easy", "choose-date-medium", "choose-date-nodelay", "choose-list"),
    *("click-button", "click-button-sequence", "click-checkboxes", "click-checkboxes-large", "click-checkboxes-soft"),
    *("click-checkboxes-transfer", "click-collapsible", "click-collapsible-nodelay", "click-dialog", "click-dialog-2"),
    *("click-menu", "click-menu-2", "click-option", "click-pie", "click-pie-nodelay", "click-tab", "click-test"),
    *("click-scroll-list", "click-test-2", "click-test-transfer", "click-widget", "drag-box", "drag-items"),
    *("drag-items-grid", "drag-sort-numbers"),
    *("enter-date", "enter-password", "enter-text", "enter-text-2", "enter-text-dynamic", "enter-time"),
    *("find-greatest", "find-word", "focus-text", "focus-text-2", "form-sequence", "form-sequence-2"),
    *("form-sequence-3",),
    *("generate-number", "guess-number", "login-user", "login-user-popup", "multi-layouts", "multi-orderings"),
    *("navigate-tree", "odd-or-even", "phone-book", "read-table", "read-table-2", "scroll-text", "scroll-text-2"),
    *("search-engine", "sign-agreement", "simple-algebra", "simple-arithmetic", "stock-market"),
    *("terminal", "text-transform", "unicode-test"),
    *("use-autocomplete", "use-autocomplete-nodelay", "use-slider", "use-slider-2", "use-spinner"),
)
"""Pages that can be done as they are: by the acts of a walk, without pixels."""

LABELLED_PAGES = (
    *("click-collapsible-2", "click-collapsible-2-nodelay", "click-link"),
    *("click-tab-2", "click-tab-2-easy", "click-tab-2-hard", "click-tab-2-medium"),
    *("drag-circle", "drag-single-shape"),
    *("email-inbox", "email-inbox-delete", "email-inbox-forward", "email-inbox-forward-nl"),
    *("email-inbox-forward-nl-turk", "email-inbox-important", "email-inbox-nl-turk", "email-inbox-noscroll"),
    *("email-inbox-reply", "email-inbox-star-reply", "order-food", "resize-textarea"),
    *("social-media", "social-media-all", "social-media-some"),
)
"""Pages with links, icons or handles that are drawn without a role and a name; tasks of `miniwob:labelled` only."""

LEFT_OUT = {
    "the drawing has to be seen": (
        *("ascending-numbers", "bisect-angle", "circle-center", "click-color", "click-shades", "click-shape"),
        *(
            "count-shape",
            "count-sides",
            "drag-cube",
            "drag-shapes",
            "drag-shapes-2",
            "find-midpoint",
            "grid-coordinate",
            "identify-shape",
            "number-checkboxes",
        ),
        *("right-angle", "tic-tac-toe", "use-colorwheel", "use-colorwheel-2", "visual-addition"),
    ),
    "a line has to be drawn through places where no element is": ("draw-circle", "draw-line"),
    "the page draws a new event next to the half hours under the mouse, so that releasing the mouse creates none": (
        "daily-calendar",
    ),
    "text has to be marked": ("highlight-text", "highlight-text-2", "text-editor"),
    "text has to be pasted, and walks share one clipboard": ("copy-paste", "copy-paste-2"),
    "the pointer has to follow something that moves or flashes": (
        *("chase-circle", "hot-cold", "hover-shape", "moving-items", "simon-says"),
    ),
}
"""The other pages of the package, by the reason why they are not used."""


EXTRA = "pip install 'agentlearn-lib[web]' && pip install --no-deps 'miniwob>=1.1,<2'"
"""Without the package's requirements: Selenium, gymnasium and Pillow, which its pages do not need."""


def miniwob_folder() -> Path:
    """Return the folder with all pages in the installed package. Raises MissingExtra.

    Does not import the package, because that needs gymnasium and Selenium.
    """
    spec = find_spec("miniwob")
    for place in (spec and spec.submodule_search_locations) or ():
        folder = Path(place) / "html"
        if (folder / "core" / "core.js").is_file():
            return folder
    raise MissingExtra(f"the miniwob domain needs the package miniwob, which is not installed: {EXTRA}")


def check_miniwob() -> Iterator[CheckResult]:
    """Check whether the pages are installed."""
    try:
        miniwob_folder()
    except MissingExtra:
        yield CheckResult(what="miniwob", state="missing", words="not installed; the tasks are its pages", mend=EXTRA)
    else:
        yield CheckResult(
            what="miniwob",
            state="ok",
            words=f"{len(PAGES)} of its pages are tasks, {len(LABELLED_PAGES)} more with labels",
        )
