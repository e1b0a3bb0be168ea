"""The files of `deploy`, and what docs/deploy.md says, tried with the real programs."""
