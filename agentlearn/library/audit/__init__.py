"""The audit of libraries: what is wrong with each lesson, as codes and sentences; and the card of a library."""

from agentlearn.library.audit.audit_codes import AuditCode
from agentlearn.library.audit.audit_library import audit_lessons
from agentlearn.library.audit.audit_result import AuditedLesson, Finding, LessonAudit, LibraryAudit, audited
from agentlearn.library.audit.known_tasks import KnownTasks

__all__ = [
    "AuditCode",
    "AuditedLesson",
    "Finding",
    "KnownTasks",
    "LessonAudit",
    "LibraryAudit",
    "audit_lessons",
    "audited",
]
