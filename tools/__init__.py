"""Tools around the project: not part of the package, run from the repository root with `python -m`."""
