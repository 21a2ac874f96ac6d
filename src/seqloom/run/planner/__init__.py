"""Options chosen from the data, the machine and a time budget."""
