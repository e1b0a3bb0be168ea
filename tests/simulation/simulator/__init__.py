"""The simulator: many processes of Stepwell in one thread, with time, chance and faults made from a seed.

`simulate(seed)` runs a small fleet over a store that delays, fails and repeats calls, while workers
are cut off, frozen and restarted; the checker then reads what is left. One seed is one history.
"""

from tests.simulation.simulator.world import Report, simulate

__all__ = ["Report", "simulate"]
