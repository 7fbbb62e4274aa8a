"""Decodes kube-scheduler's requests. Source: k8s.io/kube-scheduler/extender/v1/types.go.

    filter, prioritize   {"Pod", "Nodes", "NodeNames"}                             → ExtenderArgs
    preempt              {"Pod", "NodeNameToVictims", "NodeNameToMetaVictims"}     → PreemptionArgs
    bind                 {"PodName", "PodNamespace", "PodUID", "Node"}             → BindingArgs

Go reads keys whatever their case, so NodeNames, nodeNames and nodenames are all accepted. Unknown fields are skipped.
BadRequest is the only error, and its text is the answer's: path, what was there, what is allowed.

A decoded value may be fifty times as large as its bytes: `{},` is three. So what is large in number or size is decoded
part by part, each part bounded before: pod and node by MAX_OBJECT_BYTES, nodes by MAX_NODES, victims by what
`most_preemption_bytes` says to the caller.
"""
