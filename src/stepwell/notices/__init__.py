"""Notices: what Stepwell says by itself: approvals to their assignees, and alerts. In workers and servers."""
