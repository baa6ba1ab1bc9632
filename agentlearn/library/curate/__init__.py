"""The rules for changing a library: parse what a model wrote, check it, and make the next version.

Everything here is pure: the rules get their inputs as a frozen `CheckContext`, and refusals are values with a stable
code and a sentence. A lesson takes seven forms on its way:

    raw item        JSON of the model        reply_schema.salvage
    parsed item     `ParsedItem`             parse_item
    proposal        `Proposal`               proposing: adds id, evidence, prompts
    ended proposal  `Ended`                  next_version: applied, refused, quarantined; else folded, dropped
    experience      `Experience`             next_version: permanent id, origin
    rendered line   `[G1] lesson`            library.render
    stored row      proposal, experience     store.codec
"""

from agentlearn.library.curate.codes import DropReason, LessonFlag, QuarantineCode, RejectionCode
from agentlearn.library.curate.library_draft import CheckContext, EndCounts, OwnRule
from agentlearn.library.curate.next_version import NextVersion, next_version
from agentlearn.library.curate.operations import ParsedItem, parse_item

__all__ = [
    "CheckContext",
    "DropReason",
    "EndCounts",
    "LessonFlag",
    "NextVersion",
    "OwnRule",
    "ParsedItem",
    "QuarantineCode",
    "RejectionCode",
    "next_version",
    "parse_item",
]
