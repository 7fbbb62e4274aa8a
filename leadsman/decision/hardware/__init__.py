"""Scores of a node's hardware: how much of it is under pressure. Pure; what is measured is the agent's matter."""
