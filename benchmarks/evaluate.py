"""`leadsman evaluate` on the output of `kubectl get nodes`: seconds and memory, as JSON and as YAML.

    python -m benchmarks.evaluate [--nodes 5000]

The nodes are captured ones, repeated under other names and indented as kubectl does; one in ten violates a rule. Each
run is a process of its own. YAML is read in pure Python: a tenth of the nodes are tried, beside the same as JSON.
Targets at 5,000 nodes as JSON: at most 5 s of CPU and 250 MiB.
"""

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from leadsman.runtime.text_table import align_columns

MIB = 1 << 20
ROOT = Path(__file__).parents[1]
CAPTURE = ROOT / "tests" / "data" / "captures" / "nodes-1000-filter.json.gz"
METRIC = "health_metric"
POLICY = {
    "apiVersion": "telemetry.intel.com/v1alpha1",
    "kind": "TASPolicy",
    "metadata": {"name": "healthy"},
    "spec": {
        "strategies": {
            "dontschedule": {"rules": [{"metricname": METRIC, "operator": "GreaterThan", "target": 89}]},
            "labeling": {"rules": [{"metricname": METRIC, "operator": "GreaterThan", "target": 89, "labels": ["a=b"]}]},
        }
    },
}


EVALUATE = """
import sys, time
from leadsman.cli.main import main
code = main(["evaluate", *sys.argv[1:]])
peak_kib = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(time.process_time(), peak_kib)
sys.exit(code)
"""
"""Prints seconds of CPU and proc_pid_status(5)'s peak in its last line: ru_maxrss has the parent's too."""


class Measured(NamedTuple):
    """cpu_seconds, peak_mib: of the whole process."""

    cpu_seconds: float
    peak_mib: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    nodes = parser.parse_args().nodes
    table = [["NODES", "FORMAT", "FILE MIB", "CPU S", "PEAK MIB"]]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for count, suffix in ((nodes, "json"), (max(1, nodes // 10), "json"), (max(1, nodes // 10), "yaml")):
            file = folder / f"nodes.{suffix}"
            file.write_text(written(node_list(count), suffix))
            found = evaluated(folder, file, count)
            size_mib = file.stat().st_size / MIB
            table.append([str(count), suffix, f"{size_mib:.1f}", f"{found.cpu_seconds:.2f}", f"{found.peak_mib:.0f}"])
    print("\n".join(align_columns(table)))


def node_list(count: int) -> dict[str, Any]:
    """A List, as kubectl prints it."""
    with gzip.open(CAPTURE) as content:
        captured = json.load(content)["Nodes"]["items"]
    items = []
    for number in range(count):
        node = captured[number % len(captured)]
        metadata = {**node["metadata"], "name": f"node-{number:05}"}
        items.append({"apiVersion": "v1", "kind": "Node", **node, "metadata": metadata})
    return {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}


def written(document: dict[str, Any], suffix: str) -> str:
    if suffix == "json":
        return json.dumps(document, indent=4)
    return yaml.dump(document, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper))


def evaluated(folder: Path, nodes: Path, count: int) -> Measured:
    policies, metrics = folder / "policy.json", folder / "metrics.json"
    policies.write_text(json.dumps(POLICY))
    metrics.write_text(json.dumps({METRIC: {f"node-{number:05}": str(number % 100) for number in range(count)}}))
    files = ("--policies", policies, "--metrics", metrics, "--nodes", nodes)
    ran = subprocess.run(
        [sys.executable, "-c", EVALUATE, *map(str, files)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    cpu_seconds, peak_kib = ran.stdout.splitlines()[-1].split()
    return Measured(float(cpu_seconds), int(peak_kib) / 1024)


if __name__ == "__main__":
    main()
