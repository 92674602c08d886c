{{/* The name of all objects. */}}
{{- define "hcloud-cloud-controller-manager.name" -}}
{{- .Values.nameOverride | default .Chart.Name }}
{{- end }}

{{- define "hcloud-cloud-controller-manager.selectorLabels" -}}
{{- tpl (toYaml .Values.selectorLabels) . }}
{{- end }}

{{/* Stops with a sentence where the cluster would get something else than was meant. */}}
{{- define "hcloud-cloud-controller-manager.check" -}}
{{- if .Values.robot.enabled }}
{{- fail "robot.enabled: dedicated servers are not supported. Their Nodes are left alone, so remove the value, or stay with the official chart" }}
{{- end }}
{{- if not .Values.image.repository }}
{{- fail "image.repository is not set: it is where you have pushed the image, such as registry.example.com/ccm" }}
{{- end }}
{{- if contains "hetznercloud/hcloud-cloud-controller-manager" .Values.image.repository }}
{{- fail (printf "image.repository %q is the official image, which needs other rights than this chart gives: set it to where you have pushed yours" .Values.image.repository) }}
{{- end }}
{{- if and .Values.networkPolicy.enabled .Values.hostNetwork }}
{{- fail "networkPolicy.enabled: no NetworkPolicy applies to pods in the network of the node: set hostNetwork to false, or this too" }}
{{- end }}
{{- end }}

{{/* Without an election the old pod must be gone before the new one starts. */}}
{{- define "hcloud-cloud-controller-manager.strategy" -}}
{{- if .Values.strategy }}
{{- toYaml .Values.strategy }}
{{- else if gt (int .Values.replicaCount) 1 }}
{{- /* A node has room for one pod only, because of the ports. */ -}}
type: RollingUpdate
rollingUpdate:
  maxSurge: 0
  maxUnavailable: 1
{{- else -}}
type: Recreate
{{- end }}
{{- end }}

{{/* Flags and their values, as a map of texts. As JSON, a million is not 1e+06. */}}
{{- define "hcloud-cloud-controller-manager.args" -}}
{{- $strategy := include "hcloud-cloud-controller-manager.strategy" . | fromYaml }}
{{- $alone := and (eq .Values.kind "Deployment") (le (int .Values.replicaCount) 1) (eq $strategy.type "Recreate") }}
{{- $args := dict "leader-elect" (not $alone | toString) }}
{{- if .Values.networking.enabled }}
{{- $_ := set $args "cluster-cidr" .Values.networking.clusterCIDR }}
{{- end }}
{{- range $flag, $value := .Values.args }}
{{- if not (kindIs "invalid" $value) }}
{{- $_ := set $args $flag (kindIs "float64" $value | ternary (toJson $value) (toString $value)) }}
{{- end }}
{{- end }}
{{- toYaml $args }}
{{- end }}

{{/* Environment variables, as a map of what follows their names. A value goes before
the valueFrom that values.yaml may have. */}}
{{- define "hcloud-cloud-controller-manager.env" -}}
{{- $env := dict }}
{{- if .Values.networking.enabled }}
{{- $_ := set $env "HCLOUD_NETWORK" .Values.networking.network }}
{{- end }}
{{- if not .Values.monitoring.enabled }}
{{- $_ := set $env "HCLOUD_METRICS_ENABLED" (dict "value" "false") }}
{{- end }}
{{- range $name, $value := .Values.env }}
{{- if $value }}
{{- $_ := set $env $name $value }}
{{- end }}
{{- end }}
{{- range $name, $value := $env }}
{{- if hasKey $value "value" }}
{{- $_ := set $env $name (pick $value "value") }}
{{- end }}
{{- end }}
{{- tpl (toYaml $env) . }}
{{- end }}

{{/* Whom a binding gives a role. */}}
{{- define "hcloud-cloud-controller-manager.subjects" }}
subjects:
  - kind: ServiceAccount
    name: {{ include "hcloud-cloud-controller-manager.name" . }}
    namespace: {{ .Release.Namespace }}
{{- end }}
