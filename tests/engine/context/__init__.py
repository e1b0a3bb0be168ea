"""What workflow code may call, and what it is refused."""
