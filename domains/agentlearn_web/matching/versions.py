"""Versions of software: `3.10` is not `3.1`. Pure."""

import re
from dataclasses import dataclass

from agentlearn_web.matching.match_result import OTHER_VALUE, SAME_VALUE, AnswerMatch

_VERSION = re.compile(
    r"(?P<name>(?:[a-z][\w+#.-]* ){0,3}?)(?P<mark>(?:version|release|ver\.?|rel\.?|build|revision) ?|)"
    r"(?P<letter>v\.? ?)?(?P<parts>\d{1,9}(?:\.\d{1,9})*)(?P<suffix>[ .-]?(?:[a-z][\w.+-]{0,20})?)"
)
_THOUSANDS = re.compile(r"\d{1,3}(?:\.\d{3})+")
_DAY = re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}|\d{4}\.\d{1,2}\.\d{1,2}")
_LED_IN = re.compile(r"^(?:in|since|as of) ")
_NOT_A_NAME = frozenset(
    [
        *("not", "no", "never", "before", "after", "until", "till", "than", "least", "most", "except", "from", "up"),
        *("to", "by", "in", "on", "at", "of", "for", "with", "without", "only", "or", "and", "all", "any", "under"),
        *("over", "above", "below", "prior", "later", "earlier", "is", "was", "between", "about", "around", "minus"),
    ]
)
_BEFORE_RELEASE = re.compile(r"(?:rc|alpha|beta|a|b|dev|pre|preview|snapshot|nightly|m)[ .-]?\d*")


@dataclass(frozen=True, slots=True)
class ReleaseVersion:
    """A version."""

    name: str
    """Of the software; may be empty."""
    parts: tuple[int, ...]
    suffix: str
    """Such as `rc1`."""
    marked: bool
    """Whether it can only be a version: `v3.1`, `release 3.1`, `3.1.4`."""


def parse_version(text: str) -> ReleaseVersion | None:
    """Return the version that a text names; None for any other text. text: in lower case."""
    found = _VERSION.fullmatch(_LED_IN.sub("", text, count=1)) if len(text) <= 80 else None
    if found is None or _NOT_A_NAME & set(found["name"].split()):
        return None
    parts = tuple(int(one) for one in found["parts"].split("."))
    shaped = len(parts) > 2 and not (_THOUSANDS.fullmatch(found["parts"]) or _DAY.fullmatch(found["parts"]))
    marked = bool(found["mark"] or found["letter"]) or shaped
    return ReleaseVersion(found["name"].strip(), parts, found["suffix"].strip(" .-"), marked)


def compare_versions(answer: ReleaseVersion, gold: ReleaseVersion, question: str) -> AnswerMatch:
    """Compare two versions part by part. `3` and `3.0`, or `3.1` and `3.1.4`, are unclear.

    question: in lower case. A name that only the answer has must occur in it.
    """
    if answer.name and answer.name != gold.name and (gold.name or answer.name not in question):
        return AnswerMatch("unclear", "a version of something else")
    shared = min(len(answer.parts), len(gold.parts))
    if answer.parts[:shared] != gold.parts[:shared]:
        return AnswerMatch("different", "another version")
    if len(answer.parts) != len(gold.parts):
        return AnswerMatch("unclear", "a version with more or fewer parts")
    if answer.suffix == gold.suffix:
        return SAME_VALUE
    early = any(_BEFORE_RELEASE.fullmatch(one) for one in (answer.suffix, gold.suffix))
    return OTHER_VALUE if early else AnswerMatch("unclear", "a version with another addition")
