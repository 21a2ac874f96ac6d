"""Loss, optimiser, schedules, the loop, checkpoints."""
