"""The families of generated problems: those to learn on, and those kept for the test split alone."""

from typing import Any

from agentlearn_demo.math.families import (
    base_lengths,
    biased_coin,
    circle_regions,
    coin_payment,
    committees,
    dice_total,
    digit_writing,
    domino_tilings,
    factor_pairs,
    factorial_power,
    floor_sum,
    floor_tiles,
    grid_paths,
    journey_time,
    lcm_pairs,
    letter_rows,
    linear_pairs,
    monic_roots,
    multiples_in_interval,
    power_sums,
    prime_factors,
    scalene_triangles,
    subset_sums,
    tank_filling,
    urn_draw,
)
from agentlearn_demo.math.family import Family

LEARNING: tuple[Family[Any], ...] = (
    base_lengths.FAMILY,
    circle_regions.FAMILY,
    coin_payment.FAMILY,
    committees.FAMILY,
    dice_total.FAMILY,
    digit_writing.FAMILY,
    domino_tilings.FAMILY,
    factor_pairs.FAMILY,
    floor_tiles.FAMILY,
    grid_paths.FAMILY,
    journey_time.FAMILY,
    lcm_pairs.FAMILY,
    letter_rows.FAMILY,
    linear_pairs.FAMILY,
    monic_roots.FAMILY,
    multiples_in_interval.FAMILY,
    power_sums.FAMILY,
    prime_factors.FAMILY,
    urn_draw.FAMILY,
)
"""Families of the train and validation splits; most of the test split too."""

UNSEEN: tuple[Family[Any], ...] = (
    biased_coin.FAMILY,
    factorial_power.FAMILY,
    floor_sum.FAMILY,
    scalene_triangles.FAMILY,
    subset_sums.FAMILY,
    tank_filling.FAMILY,
)
"""Families of the test split only. Every trap in them lies in learning families as well."""

FAMILIES = LEARNING + UNSEEN
