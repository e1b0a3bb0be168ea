"""How people write workflows: functions now, machines and graphs to come."""
