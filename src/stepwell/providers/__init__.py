"""Providers of models, by the names that an operator gave them, and the request that asks one."""
