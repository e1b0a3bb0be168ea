"""Reads histories and the ledger, and says which promises were broken."""
