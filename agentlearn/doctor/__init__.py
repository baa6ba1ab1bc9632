"""Doctor: what works here (`here`) and what a model can do (`probe`), each with the line that mends what does not."""

from agentlearn.doctor.check_result import CheckResult
from agentlearn.doctor.machine import examine

__all__ = ["CheckResult", "examine"]
