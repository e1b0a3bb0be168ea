"""What type checkers see: samples that must pass, and wrong calls that must be rejected."""
