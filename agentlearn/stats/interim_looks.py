"""Correction of p-values for interim looks: several tests of the same question on growing data."""

from agentlearn.errors import ConfigError


def look_factor(look: int, planned: int = 1) -> float:
    """Factor by which to multiply the p-value of an interim look.

    look: number of the look, from 1. planned: number of looks planned before the first. Planned looks share alpha
    equally (the factor is `planned`). The m-th unplanned look has the factor 4 m (m + 1); as the sum of 1 / (m (m + 1))
    is 1, all unplanned looks together spend at most alpha / 4 more, however many there are. So the chance of any false
    finding is at most alpha with planned looks only, and at most 1.25 alpha otherwise.
    Raises ConfigError for numbers below 1. Source: Bonferroni's inequality.
    """
    for name, number in (("look", look), ("planned", planned)):
        if number < 1:
            raise ConfigError(f"{name} is {number!r}; looks are counted from 1")
    if look <= planned:
        return float(planned)
    late = look - planned
    return float(4 * late * (late + 1))
