"""Shows what the compiler knows: analyses as comments in the text, graphs, and pages."""
