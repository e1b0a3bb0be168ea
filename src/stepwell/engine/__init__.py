"""The worker: claims runs, replays and drives their programs, commits what happened."""
