"""What workflow code may call."""
