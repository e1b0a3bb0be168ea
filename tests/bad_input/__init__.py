"""What people get wrong, and what they are told."""
