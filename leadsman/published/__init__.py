"""Defines the documents by which Leadsman's processes tell each other things in ConfigMaps, and the next leader goes
on.

Plain values and one codec. Planners make them, the controller writes them, extenders and the command line read them.
"""
