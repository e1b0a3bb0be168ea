"""The simulator: many Stepwell processes in one thread, with time, chance and faults drawn from a seed.

`simulate(seed)` runs a small fleet over a store that delays, fails and repeats calls, while workers
are killed, frozen and restarted; the checker then reads the result. One seed is one history.
"""

from tests.simulation.simulator.world import Report, simulate

__all__ = ["Report", "simulate"]
