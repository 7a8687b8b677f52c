"""What a trial costs in CPU time, hardware events and energy."""
