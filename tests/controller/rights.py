"""Which rights the controller used on a real API server, by its audit log, and which the components grant."""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.controller.test_node_health_on_kubernetes import ACCOUNT, COMPONENTS

Right = tuple[str, str, str]
"""Verb, resource with its subresource, and namespace; "" for the cluster."""


def audit_flags(audit_log: Path) -> tuple[str, str]:
    """Flags of kube-apiserver, with which each request of the controller's account is a line in the file."""
    policy = audit_log.with_name("audit.yaml")
    rules = [{"level": "Metadata", "users": [ACCOUNT], "omitStages": ["RequestReceived"]}, {"level": "None"}]
    policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
    return f"--audit-log-path={audit_log}", f"--audit-policy-file={policy}"


def used_rights(audit_log: Path) -> set[Right]:
    """Of the requests that were allowed. Events are the component controller's."""
    events = [json.loads(line) for line in audit_log.read_text().splitlines()]
    assert not [each for each in events if each["responseStatus"]["code"] == 403], "a right is missing"
    references = [(each["verb"], each["objectRef"]) for each in events if "objectRef" in each]
    return {
        (verb, "/".join(filter(None, (about["resource"], about.get("subresource")))), about.get("namespace", ""))
        for verb, about in references
        if about["resource"] != "events"
    }


def granted_rights(*files: str) -> set[Right]:
    """By the roles in these files of the components, as "backups/rbac"."""
    objects: list[dict[str, Any]] = []
    for name in files:
        objects += yaml.safe_load_all((COMPONENTS / f"{name}.yaml").read_text())
    return {
        (verb, resource, one["metadata"].get("namespace", ""))
        for one in objects
        for rule in one.get("rules", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
