"""One claimed run: replaying its log, waiting, writing."""
