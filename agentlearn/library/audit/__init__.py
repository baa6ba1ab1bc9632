"""The audit of libraries: what is wrong with each lesson, as codes and sentences; and the card of a library."""

from agentlearn.library.audit.audit_library import KnownTasks, audit_lessons
from agentlearn.library.audit.audit_result import AuditCode, AuditedLesson, Finding, LessonAudit, LibraryAudit, audited

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
