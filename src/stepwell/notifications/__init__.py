"""Notifications that Stepwell sends by itself, in workers and servers: of approvals and of alerts."""
