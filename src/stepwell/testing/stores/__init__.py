"""The rules of a store, one file per noun; `stepwell.testing.store_suite` puts them together."""
