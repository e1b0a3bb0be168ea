"""Channels: ways to reach people and services, under names that an operator chose."""
