"""Keeps a recording: decided requests with everything that they were decided on, in a ring of files.

    DecidedRequest → RequestEncoder → blocks → SegmentRing → files → Recording → RequestDecoder → DecidedRequest

`tables` says what of the inputs is recorded, `messages` how. `segments` writes the files, and `reader` reads them, also
while they are written.
"""
