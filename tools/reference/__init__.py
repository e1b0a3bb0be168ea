"""The generated reference: `make reference` writes docs/reference, and a test checks that it is current."""
