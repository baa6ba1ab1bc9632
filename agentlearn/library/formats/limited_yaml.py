"""YAML from outside, as plain text values: no tags, no aliases, and limits on depth and size."""

from agentlearn.errors import LibraryError, MissingExtra

_DEEPEST = 32
_MOST_PARTS = 100_000


def yaml_value(text: str, source: str) -> object:
    """Return the value of a YAML text; every scalar is text. Raises LibraryError, or MissingExtra without PyYAML."""
    try:
        import yaml
    except ImportError as error:
        raise MissingExtra("reading YAML needs PyYAML: pip install 'agentlearn-lib[learn]'") from error
    try:
        _check(yaml.parse(text, Loader=yaml.BaseLoader), source)
        return yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506  it makes text, lists and dictionaries only
    except (yaml.YAMLError, ValueError) as error:
        words = " ".join(str(error).split())
        raise LibraryError(f"{source!r} is not YAML: {words[:200]}", code="bad_yaml") from error
    except RecursionError as error:
        raise LibraryError(f"{source!r} is nested too deep", code="bad_yaml") from error


def _check(events: "object", source: str) -> None:
    """Raise LibraryError when the events of a document are not those of plain data."""
    import yaml

    depth = 0
    for number, event in enumerate(events):  # pyright: ignore[reportArgumentType, reportUnknownVariableType, reportUnknownArgumentType]
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise LibraryError(f"{source!r} has an anchor or an alias; write the text itself there", code="bad_yaml")
        if getattr(event, "tag", None):
            raise LibraryError(f"{source!r} has a YAML tag, which could make objects; remove it", code="bad_yaml")
        if depth > _DEEPEST or number > _MOST_PARTS:
            raise LibraryError(f"{source!r} is too deep or too long for a library in YAML", code="bad_yaml")
