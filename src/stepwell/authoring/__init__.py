"""The three ways to write a workflow: functions, machines and graphs."""
