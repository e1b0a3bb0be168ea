"""What a graph run did, derived from its log."""
