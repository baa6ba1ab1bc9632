"""What works on this machine (`machine`) and what a model can do (`model_probe`), each with the step that fixes it."""

from agentlearn.doctor.machine import check_machine
from agentlearn.domain.base import CheckResult

__all__ = ["CheckResult", "check_machine"]
