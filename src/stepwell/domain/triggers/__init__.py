"""Triggers: what starts runs by itself: schedules, webhooks, events and sources."""
