"""What a step would take without its stragglers: measured operations, their dependencies, and their replay."""
