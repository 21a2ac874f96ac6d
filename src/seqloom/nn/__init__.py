"""Layers: attention, recurrent cells, positions, dropout."""
