{{- define "msmq.name" -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "msmq.selector" -}}
app.kubernetes.io/name: msmq
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "msmq.labels" -}}
{{ include "msmq.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "msmq.computer" -}}
{{- .Values.computerName | default (.Release.Name | upper | trunc 15 | trimSuffix "-") -}}
{{- end -}}
