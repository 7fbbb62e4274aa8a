"""Leadsman's processes tell each other these documents through ConfigMaps, and the next leader goes on from them.

Plain values and one codec. Planners make them, the controller writes them, extenders and the command line read them.
"""
