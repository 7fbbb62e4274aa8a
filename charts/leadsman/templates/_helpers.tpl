{{/* Which parts are on. */}}
{{- define "leadsman.parts" -}}
{{- if .Values.fullnameOverride }}{{ fail "fullnameOverride cannot work: kube-scheduler's configuration, the certificates and the rights of tokens name the objects, so a cluster has one release; nameOverride sets the label app.kubernetes.io/name" }}{{ end -}}
{{- $selfHealing := eq .Values.profile "self-healing" -}}
{{- $controller := ne .Values.profile "bounds" -}}
{{- $movePlans := or .Values.planning.movePlans .Values.planning.rebalance -}}
{{- if and $movePlans (not $selfHealing) }}{{ fail "planning.movePlans and planning.rebalance need profile=self-healing" }}{{ end -}}
{{- if and .Values.controller.deviceHealth.enabled (not $controller) }}{{ fail "controller.deviceHealth needs profile=controller or profile=self-healing" }}{{ end -}}
{{- if ge (int .Values.certificates.renewBeforeDays) (int .Values.certificates.days) }}{{ fail "certificates.renewBeforeDays must be less than certificates.days: else each upgrade renews all" }}{{ end -}}
always: true
controller: {{ $controller }}
selfHealing: {{ $selfHealing }}
deviceHealth: {{ .Values.controller.deviceHealth.enabled }}
movePlans: {{ $movePlans }}
rebalance: {{ .Values.planning.rebalance }}
telemetry: {{ .Values.telemetry.enabled }}
bind: {{ .Values.extender.bind }}
devices: {{ .Values.extender.devices }}
scheduler: {{ .Values.scheduler.enabled }}
{{- end }}

{{/* The name in labels and selectors. */}}
{{- define "leadsman.appName" -}}
{{ .Values.nameOverride | default "leadsman" }}
{{- end }}

{{/* (root, component) */}}
{{- define "leadsman.selector" -}}
app.kubernetes.io/name: {{ include "leadsman.appName" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* (root, component), component "" for what belongs to no one part */}}
{{- define "leadsman.labels" -}}
app.kubernetes.io/name: {{ include "leadsman.appName" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion }}
app.kubernetes.io/part-of: leadsman
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* (root, component, name, namespace): "" when the object has none */}}
{{- define "leadsman.metadata" -}}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "leadsman.labels" . | nindent 4 }}
{{- end }}

{{/* (root, own): `own` has a repository, a tag and a digest; the registry and an empty tag are those of `image` */}}
{{- define "leadsman.image" -}}
{{- $image := .root.Values.image -}}
{{- with $image.registry }}{{ . }}/{{ end }}{{ .own.repository }}
{{- if .own.digest }}@{{ .own.digest }}{{ else }}:{{ .own.tag | default $image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The URLs of the gateways of etcd's members: each by its own name. */}}
{{- define "leadsman.etcdURLs" -}}
{{- $urls := list -}}
{{- range until (int .Values.etcd.replicas) -}}
{{- $urls = append $urls (printf "https://leadsman-etcd-%d.leadsman-etcd-peers:9004" .) -}}
{{- end -}}
{{ join "," $urls }}
{{- end }}

{{/* The sources of metrics: those of telemetry policies, and for devices a Prometheus where these name none. */}}
{{- define "leadsman.deviceSources" -}}
{{- $sources := .Values.telemetry.source -}}
{{ contains "prometheus=" $sources | ternary $sources (printf "%s,prometheus=%s" $sources .Values.controller.deviceHealth.prometheus) }}
{{- end }}

{{/* What pods read as settings: agents, extenders and controllers restart when it changes. */}}
{{- define "leadsman.settings" -}}
LEADSMAN_ETCD: {{ include "leadsman.etcdURLs" . | quote }}
LEADSMAN_ETCD_CA: /var/run/secrets/leadsman/etcd/ca.crt
LEADSMAN_ETCD_TOKEN_FILE: /var/run/secrets/leadsman/etcd/token
LEADSMAN_LOG_LEVEL: {{ .Values.logLevel | quote }}
{{- if .Values.telemetry.enabled }}
LEADSMAN_TELEMETRY: {{ .Values.telemetry.source | quote }}
{{- end }}
{{- end }}

{{/* (root, component, values): the metadata of our own pods */}}
{{- define "leadsman.podMetadata" -}}
metadata:
  annotations:
    checksum/settings: {{ include "leadsman.settings" .root | sha256sum }}
    {{- with .values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  labels:
    {{- include "leadsman.labels" . | nindent 4 }}
    {{- with .values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* (root, component): as the affinity of podSpec, replicas on different nodes where there are any */}}
{{- define "leadsman.apart" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "leadsman.selector" . | nindent 12 }}
{{- end }}

{{/* (root, component): as the affinity of podSpec, no two replicas on one node */}}
{{- define "leadsman.neverTogether" -}}
podAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          {{- include "leadsman.selector" . | nindent 10 }}
{{- end }}

{{/* (root, component, values, affinity): the start of any pod's spec. affinity: YAML; what the values say comes first */}}
{{- define "leadsman.podSpec" -}}
serviceAccountName: leadsman-{{ .component }}
automountServiceAccountToken: true
# Service links would put LEADSMAN_…_PORT variables beside our settings.
enableServiceLinks: false
{{- with .root.Values.priorityClass.name }}
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with merge (.values.affinity | default dict | deepCopy) (.affinity | default "" | fromYaml) }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What a process shows etcd's gateway, and the CA that it trusts: a volume and its mount. */}}
{{- define "leadsman.etcdAccessVolume" -}}
- name: etcd-access
  projected:
    sources:
      - serviceAccountToken: {audience: leadsman-etcd, expirationSeconds: 3600, path: token}
      {{- if eq .Values.certificates.mode "cert-manager" }}
      # cert-manager writes no ConfigMap. This certificate serves no purpose and its key opens nothing.
      - secret: {name: leadsman-etcd-trust, items: [{key: ca.crt, path: ca.crt}]}
      {{- else }}
      - configMap: {name: leadsman-etcd-trust}
      {{- end }}
{{- end }}

{{- define "leadsman.etcdAccessMount" -}}
- {name: etcd-access, mountPath: /var/run/secrets/leadsman/etcd, readOnly: true}
{{- end }}

{{/* As user 10001, under the restricted profile. */}}
{{- define "leadsman.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "leadsman.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* (root, component, port): ingress from Prometheus */}}
{{- define "leadsman.fromMonitoring" -}}
- from:
    - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ .root.Values.networkPolicy.monitoringNamespace }}}}
  ports:
    - {port: {{ .port }}, protocol: TCP}
{{- end }}

{{- define "leadsman.toPrometheus" -}}
- to:
    - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ .Values.networkPolicy.monitoringNamespace }}}}
{{- end }}

{{- define "leadsman.toNamesAndAPIServer" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
    - {port: 5353, protocol: UDP}
    - {port: 5353, protocol: TCP}
# The API server: on the host network, so only its usual ports can be named.
- ports:
    - {port: 443, protocol: TCP}
    - {port: 6443, protocol: TCP}
    - {port: 16443, protocol: TCP}
{{- end }}

{{/* Egress to etcd's gateways */}}
{{- define "leadsman.toEtcd" -}}
- to:
    - podSelector:
        matchLabels:
          {{- include "leadsman.selector" (dict "root" . "component" "etcd") | nindent 10 }}
  ports:
    - {port: 9004, protocol: TCP}
{{- end }}

{{/*
(root, file): the objects of a file of daemonset/, for this release: its namespace and labels in place of the file's.
What the file says of rights, monitors and placeholders has its one home there. Monitors also get what serviceMonitor says,
rules what prometheusRule says.
*/}}
{{- define "leadsman.objectsOf" -}}
{{- $root := .root -}}
{{- $clusterWide := list "Namespace" "PriorityClass" "ClusterRole" "ClusterRoleBinding" "CustomResourceDefinition" -}}
{{- range splitList "\n---\n" ($root.Files.Get (printf "files/%s" .file) | required (printf "files/%s is not in the chart" .file)) }}
{{- $object := fromYaml . -}}
{{- $meta := $object.metadata -}}
{{- $component := get ($meta.labels | default dict) "app.kubernetes.io/component" | default "" -}}
{{- $own := include "leadsman.labels" (dict "root" $root "component" $component) | fromYaml -}}
{{- $kept := dict -}}
{{- range $key, $value := $meta.labels -}}
{{- if hasPrefix "pod-security.kubernetes.io/" $key }}{{ $_ := set $kept $key $value }}{{ end -}}
{{- end -}}
{{- $_ := set $meta "labels" (merge $own $kept) -}}
{{- if and (not (has $object.kind $clusterWide)) (has (get $meta "namespace" | default "leadsman") (list "leadsman")) -}}
{{- $_ := set $meta "namespace" $root.Release.Namespace -}}
{{- end -}}
{{- range $object.subjects -}}
{{- $_ := set . "namespace" $root.Release.Namespace -}}
{{- end -}}
{{- if and (eq $object.kind "ServiceAccount") $root.Values.serviceAccount.annotations -}}
{{- $_ := set $meta "annotations" $root.Values.serviceAccount.annotations -}}
{{- end -}}
{{- if eq $object.kind "PrometheusRule" -}}
{{- $_ := set $meta "labels" (merge (deepCopy $root.Values.prometheusRule.additionalLabels) $meta.labels) -}}
{{- with $root.Values.prometheusRule.runbooksUrl -}}
{{- $page := . -}}
{{- range $group := $object.spec.groups }}{{ range $group.rules }}{{ with .annotations -}}
{{- $_ := set . "runbook_url" (replace "docs/runbooks.md" $page .runbook) -}}
{{- end }}{{ end }}{{ end -}}
{{- end -}}
{{- else if hasPrefix "monitoring.coreos.com/" $object.apiVersion -}}
{{- $_ := set $meta "labels" (merge (deepCopy $root.Values.serviceMonitor.additionalLabels) $meta.labels) -}}
{{- $_ := set $object.spec.selector "matchLabels" (include "leadsman.selector" (dict "root" $root "component" $component) | fromYaml) -}}
{{- range concat ($object.spec.podMetricsEndpoints | default list) ($object.spec.endpoints | default list) -}}
{{- $endpoint := . -}}
{{- with $root.Values.serviceMonitor.interval }}{{ $_ := set $endpoint "interval" . }}{{ end -}}
{{- end -}}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
