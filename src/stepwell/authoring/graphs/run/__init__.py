"""What a running graph does next."""
