"""The column `arm`: one text for the arm of a treatment, the step of trained weights, and the phase of measurements."""

from agentlearn.types.trajectory import Trajectory, measures
from agentlearn.types.treatment import MAIN_ARM

_IMPORT = ("import", "foreign")


def stored_arm(trajectory: Trajectory) -> str:
    """Return the text of the column `arm`.

    It is `step-N` for weights in training, the phase for measurements of a learning run, `foreign` for imported
    rollouts, and the treatment's arm otherwise.
    """
    text = trajectory.treatment.arm_text
    if text != MAIN_ARM:
        return text
    phase, imported = _IMPORT
    if trajectory.phase == phase:
        return imported
    return trajectory.phase if measures(trajectory.phase) else MAIN_ARM


def read_arm(text: str, phase: str) -> str:
    """Return the `arm` for `Treatment` from the column `arm` of a rollout of that phase."""
    return MAIN_ARM if (text and text == phase) or (phase, text) == _IMPORT else text
