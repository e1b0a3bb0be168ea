"""Calls to the outside: what they may reach, and what they survive."""
