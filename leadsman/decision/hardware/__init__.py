"""Scores nodes by their hardware. Pure; agents measure."""
