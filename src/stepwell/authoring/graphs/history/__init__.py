"""What a graph run did, told from its log."""
