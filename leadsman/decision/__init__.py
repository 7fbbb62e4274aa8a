"""What to answer, and why. Pure: no clock, no I/O, no asyncio, no chance.

A pod, the nodes asked about, the facts (a Snapshot), a policy and `now` go in; a Decision with a reason
for every refusal and every score comes out. `/filter`, `/prioritize` and `/explain` are projections of it.
"""
