"""Templates and expressions inside node data, compiled when a graph is saved."""
