"""The commands, one module a noun. `stepwell.cli.app` says which is where."""
