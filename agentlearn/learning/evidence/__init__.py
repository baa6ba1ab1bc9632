"""Evidence on single lessons: what each one does to the reward, measured by hiding it at random from some rollouts."""

from agentlearn.learning.evidence.blocks import LessonBlock, blocks_of
from agentlearn.learning.evidence.judgement import (
    EvidenceLabel,
    EvidenceRules,
    LessonEvidence,
    LibraryEvidence,
    ParkingPlan,
    ToPark,
    evidence_of,
    evidence_words,
    judge,
    lessons_ever,
    library_evidence,
    to_evict,
    to_park,
)

__all__ = [
    "EvidenceLabel",
    "EvidenceRules",
    "LessonBlock",
    "LessonEvidence",
    "LibraryEvidence",
    "ParkingPlan",
    "ToPark",
    "blocks_of",
    "evidence_of",
    "evidence_words",
    "judge",
    "lessons_ever",
    "library_evidence",
    "to_evict",
    "to_park",
]
