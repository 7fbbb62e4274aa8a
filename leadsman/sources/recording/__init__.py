"""What decisions were made on, written to files and read back, so that each can be made again exactly.

Here live the form of a recording, what turns a decided request and its inputs into it and back, and the ring of files.
When it is written is the extender's business, what is done with it that of `extender.replay`.
"""
