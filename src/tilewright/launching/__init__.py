"""What every machine needs for a launch: arguments and their checks, printing, assertions."""
