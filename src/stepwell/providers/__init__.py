"""Providers: services that run models, under names that an operator chose, and the request to one."""
