"""Providers of models, and the request that asks one."""
