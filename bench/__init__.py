"""Benches: Stepwell, the floor below it, and other engines, on the same work in one run."""
