"""Channels: ways to people and services, by the names that an operator gave them."""
