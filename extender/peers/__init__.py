"""Other processes of Leadsman that an extender asks: the other extenders, and the controllers.

Here lives how they are found by a name, asked all at once within one deadline, and named where they are silent. What
they are asked for, and what their answers mean, is known by those who ask. It imports nothing of the extender's.
"""
