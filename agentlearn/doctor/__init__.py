"""Doctor: what works here (`here`) and what a model can do (`probe`), each with the line that mends what does not."""

from agentlearn.doctor.machine import check_machine
from agentlearn.domain.check_result import CheckResult

__all__ = ["CheckResult", "check_machine"]
