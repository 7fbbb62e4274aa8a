"""Proposes moves of pods to nodes that serve them better, where that is worth more than a move costs.

    Cluster + DecisionInputs + Departures → plan_rebalance → MovePlan

What serves a pod better is what the score plugins of the policy say: delays, rewards, pressure on the hardware.
"""
