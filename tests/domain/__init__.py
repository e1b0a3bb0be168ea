"""The pure rules: no store, no loop, no clock."""
