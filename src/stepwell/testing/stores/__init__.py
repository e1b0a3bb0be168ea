"""What a store promises, one file a noun; `stepwell.testing.store_suite` puts them together."""
