"""Evidence on single lessons: what each one does to the reward, measured by hiding it at random from some rollouts."""

from agentlearn.learning.evidence.blocks import LessonBlock, blocks_of
from agentlearn.learning.evidence.decisions import ParkingPlan, ToPark, evidence_words, to_evict, to_park
from agentlearn.learning.evidence.judgement import EvidenceLabel, EvidenceRules, LessonEvidence, evidence_of, judge
from agentlearn.learning.evidence.library_evidence import LibraryEvidence, lessons_ever, library_evidence

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
