"""What all stores promise, and what each one must do in its own way."""
