"""What Leadsman's processes say to each other through ConfigMaps, and what the next leader goes on from.

Plain values and one codec. Planners make them, the controller writes them, extenders and the command line read them.
"""
