"""Reads histories and the ledger, and reports which promises were broken."""
