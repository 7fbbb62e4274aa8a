import subprocess,sys
from pathlib import Path
table=subprocess.run([sys.executable,'.mkdoc.py',*sys.argv[2:]],capture_output=True,text=True,check=True).stdout
head=f'''## What was tried

`make torture` runs 8 agents in network namespaces, three members of etcd, two extenders behind mutual TLS and two controllers,
with 20 pods a second scheduled through both extenders, and breaks them row by row. A checker reads what was recorded: every push, view,
answer, explanation, node write and scrape. It wants that

- no decision uses a value last seen to change more than 15 s ago (G1);
- every answer has the nodes that were asked about, each once, scores 0 to 10, and no node beyond the pod's bound, within 500 ms for 95 % of
  the pods; bad input gets a 4xx or a closed connection (G3);
- what is used was pushed by that node's agent, and nothing goes back (G5);
- agents report 8 s after the fault at most, extenders' views are whole after 10 s, a dead node is gone after 21 s, and etcd may change its
  leader in 5 s (G6);
- marks keep their budgets and only the leader writes nodes (G7); `/metrics` answers within 2 s whatever is away (G8);
- no process ends, and none passes the memory limit of the manifests.

{sys.argv[1]} Load held: the share of pods answered within 500 ms. Memory: the largest agent ·
extender · controller, in MiB.

| row | what was done | load held | violations | recovered after | memory |
| --- | --- | --- | --- | --- | --- |
{table}
Not tried: that pods bind with no extender at all (G2) is kube-scheduler's `ignorable: true`, which a test of the generated configuration
holds; running out of memory is a SIGKILL here; etcd runs without fsync.

**Open**: `large-bodies-of-tiny-items`. A client that holds kube-scheduler's certificate can take the extender to 1.3 GB, past
its 512 MiB, with one body of 50 MB that has 17 million empty nodes: items are counted only after they are decoded.

'''
p=Path('docs/operating.md'); s=p.read_text()
if '## What was tried' in s:
    a=s.index('## What was tried'); b=s.index('## etcd',a); s=s[:a]+s[b:]
s=s.replace('## etcd\n',head+'## etcd\n',1)
p.write_text(s)
