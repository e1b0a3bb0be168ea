"""How a state machine moves from place to place."""
