"""What Stepwell says by itself: approvals to their assignees, and alerts."""
