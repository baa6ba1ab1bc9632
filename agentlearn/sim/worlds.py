"""Frozen worlds: seeds of simulated worlds, fixed before any learning algorithm was judged in them.

An algorithm may be tuned on the first kind for as long as one likes; on the second it is judged.
"""

TUNING_WORLDS: tuple[int, ...] = (101, 102, 103, 104, 105)
JUDGING_WORLDS: tuple[int, ...] = (7_919, 15_485, 32_452, 49_979, 67_867, 86_028, 104_395, 122_949)
