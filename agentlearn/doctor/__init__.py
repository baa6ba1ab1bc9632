"""Doctor: what works here (`here`) and what a model can do (`probe`), each with the line that mends what does not."""

from agentlearn.doctor.finding import Finding
from agentlearn.doctor.here import examine

__all__ = ["Finding", "examine"]
