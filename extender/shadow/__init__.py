"""A second policy, judged beside the live one: what would have been answered to the same requests.

Here live the process that judges, what feeds it, and its counters and page. It has a process of its own because the
interpreter runs one thread at a time: judged on a thread, each request would make the next answer wait.
"""
