#!/bin/sh
# Process 1 of a node: node_boot.sh NAME FOLDER BINARIES IMAGES ZONE. What it starts ends with it, as at a power cut.
name=$1 folder=$2 binaries=$3 images=$4 zone=$5
set -e
hostname "$name"
mount --make-rprivate /
mount -t tmpfs tmpfs /run
for path in /var/lib/kubelet /var/lib/containerd /var/log/pods /var/log/containers /etc/cni/net.d; do
  mkdir -p "$folder/disk$path" "$path"
  mount --bind "$folder/disk$path" "$path"
done
cp "$folder/pods.conflist" /etc/cni/net.d/
mkdir -p /run/containerd /run/netns /run/lock
mount --make-rshared /
PATH=$binaries:$PATH
keep() { # a service manager: LOG COMMAND…
  log=$1; shift
  (while :; do "$@" >>"$folder/$log.log" 2>&1 || true; sleep 1; done) &
}
keep containerd containerd --config "$folder/containerd.toml"
until ctr version >/dev/null 2>&1; do sleep 0.2; done
for archive in "$images"/*.tar; do
  if [ ! -e "$folder/imported" ] || [ "$archive" -nt "$folder/imported" ]; then
    ctr -n k8s.io images import "$archive" >/dev/null
  fi
  first=$(sed -n 1p "${archive%.tar}.tags")
  sed 1d "${archive%.tar}.tags" | while read -r tag; do ctr -n k8s.io images tag --force "$first" "$tag" >/dev/null; done
done
touch "$folder/imported"
keep kubelet kubelet --config="$folder/kubelet.yaml" --kubeconfig="$folder/kubelet.json" --hostname-override="$name" \
  --node-ip="$(cat "$folder/address")" --cert-dir=/var/lib/kubelet/pki --node-labels="topology.kubernetes.io/zone=$zone"
keep kube-proxy kube-proxy --config="$folder/kube-proxy.yaml"
while :; do wait || true; sleep 1; done
