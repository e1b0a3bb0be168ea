"""The demo: seeded workflows of all three styles, real workers, and a button that kills one of them."""
