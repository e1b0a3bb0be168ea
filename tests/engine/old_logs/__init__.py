"""Logs that commit c757b29 wrote, with the workflows they belong to."""
