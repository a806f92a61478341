{{/* The release's name, which all objects carry; with the chart's name where it is not in it. */}}
{{- define "pd-operator.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" (.Release.Name | trunc 40 | trimSuffix "-") .Chart.Name -}}
{{- end -}}
{{- end -}}

{{/* Name of cluster-scoped objects: releases of one name in two namespaces must not collide. */}}
{{- define "pd-operator.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "pd-operator.name" .) -}}
{{- end -}}

{{- define "pd-operator.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "pd-operator.labels" -}}
{{ include "pd-operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* What the operator may do where it watches. Each line has a use; nothing is a wildcard. */}}
{{- define "pd-operator.rules" -}}
- apiGroups: [pd-operator.io]
  resources: [pddeployments]
  verbs: [get, list, watch]
- apiGroups: [pd-operator.io]
  resources: [pddeployments/status]
  verbs: [patch]
# Owner references with blockOwnerDeletion need this where admission checks it (OpenShift).
- apiGroups: [pd-operator.io]
  resources: [pddeployments/finalizers]
  verbs: [update]
# Children. Applying an object that is not there yet takes both create and patch.
- apiGroups: [""]
  resources: [configmaps, serviceaccounts, services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [deployments, statefulsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
# Each proxy's own Role: read pods, nothing else. The operator can give away only what it holds.
- apiGroups: [rbac.authorization.k8s.io]
  resources: [rolebindings, roles]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
# list: Events alone tell why a StatefulSet cannot make pods.
- apiGroups: [""]
  resources: [events]
  verbs: [list, create]
{{- end -}}
