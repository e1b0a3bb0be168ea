"""Clients and handles, as callers see them."""
