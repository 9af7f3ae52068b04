{{/*
The objects of one of our manifests, adapted to the release. The manifests themselves stand in the repository's
folders manifests/ and crds/, so that kustomize and Helm install the same.

Takes a dict: `root`; `path` of the manifest; `component` (a label) or ""; `name` of the scheduler whose objects
they are, or ""; `half` with the values of its Deployment, or an empty dict.
*/}}
{{- define "vscheduler.manifest" -}}
{{- $text := required (printf "%s: no such manifest" .path) (.root.Files.Get .path) -}}
{{- if .name -}}
{{- $text = regexReplaceAll `(?m)(name: |instance: |serviceAccountName: |--scheduler-name=|resourceNames: \[)vscheduler([\]}]?)( #.*)?$` $text (printf "${1}%s${2}" .name) -}}
{{- end -}}
{{- range regexSplit `(?m)^---$` $text -1 -}}
{{- $object := fromYaml . -}}
{{- if hasKey $object "Error" -}}
{{- fail (printf "%s: %s" $.path $object.Error) -}}
{{- end -}}
{{- if $object -}}
{{- $_ := include "vscheduler.adapt" (merge (dict "object" $object) $) -}}
{{- printf "\n---\n%s\n" (toYaml $object) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Change an object in place, by its kind. */}}
{{- define "vscheduler.adapt" -}}
{{- $object := .object -}}
{{- $values := .root.Values -}}
{{- $_ := include "vscheduler.describe" . -}}
{{- if eq $object.kind "Deployment" -}}
{{- $_ := include "vscheduler.adaptPods" . -}}
{{- else if eq $object.kind "PodDisruptionBudget" -}}
{{- if lt (int .half.replicas) 2 -}}
{{- $_ := set $object.spec "minAvailable" 0 -}}
{{- end -}}
{{- else if and (eq $object.kind "ConfigMap") .name .half.configuration -}}
{{- $_ := set $object.data "scheduler.yaml" .half.configuration -}}
{{- else if and (eq $object.kind "Role") (not .name) -}}
{{- $leases := list -}}
{{- range $values.schedulers -}}
{{- $leases = append $leases (printf "%s-podgroups" .name) -}}
{{- end -}}
{{- $_ := set (first $object.rules) "resourceNames" (append $leases $object.metadata.name) -}}
{{- else if eq $object.kind "ClusterRole" -}}
{{- $rules := list -}}
{{- range $object.rules -}}
{{- $volumes := or (has "persistentvolumes" .resources) (has "storage.k8s.io" .apiGroups) -}}
{{- $devices := has "resource.k8s.io" .apiGroups -}}
{{- if not (or (and $volumes (not $values.volumes)) (and $devices (not $values.devices))) -}}
{{- $rules = append $rules . -}}
{{- end -}}
{{- end -}}
{{- $_ := set $object "rules" $rules -}}
{{- else if and (eq $object.kind "ClusterRoleBinding") (not .name) (eq $object.metadata.name "vscheduler-page") -}}
{{- $subjects := list -}}
{{- range $values.schedulers -}}
{{- $subjects = append $subjects (dict "kind" "ServiceAccount" "name" .name "namespace" $.root.Release.Namespace) -}}
{{- end -}}
{{- $_ := set $object "subjects" $subjects -}}
{{- else if eq $object.kind "NetworkPolicy" -}}
{{- $ports := list -}}
{{- range $values.networkPolicy.apiServerPorts -}}
{{- $ports = append $ports (dict "protocol" "TCP" "port" .) -}}
{{- end -}}
{{- $_ := set (last $object.spec.egress) "ports" $ports -}}
{{- else if eq $object.kind "CustomResourceDefinition" -}}
{{- $kept := dict "helm.sh/resource-policy" "keep" -}}
{{- $_ := set $object.metadata "annotations" (merge $kept ($object.metadata.annotations | default dict)) -}}
{{- else if eq $object.kind "ServiceMonitor" -}}
{{- $_ := set $object.spec.namespaceSelector "matchNames" (list .root.Release.Namespace) -}}
{{- else if eq $object.kind "ValidatingAdmissionPolicy" -}}
{{- $_ := include "vscheduler.adaptPolicy" . -}}
{{- end -}}
{{- end -}}

{{/* Namespace and labels. */}}
{{- define "vscheduler.describe" -}}
{{- $namespace := .root.Release.Namespace -}}
{{- $metadata := .object.metadata -}}
{{- if or (hasKey $metadata "namespace") (has .object.kind (list "ConfigMap" "PrometheusRule" "ServiceMonitor")) -}}
{{- $_ := set $metadata "namespace" $namespace -}}
{{- end -}}
{{- range .object.subjects -}}
{{- if hasKey . "namespace" -}}
{{- $_ := set . "namespace" $namespace -}}
{{- end -}}
{{- end -}}
{{- $ours := dict "app.kubernetes.io/part-of" "vscheduler" -}}
{{- if .component -}}
{{- $_ := set $ours "app.kubernetes.io/component" .component -}}
{{- end -}}
{{- if and .name (ne .name "vscheduler") -}}
{{- $_ := set $ours "app.kubernetes.io/instance" .name -}}
{{- end -}}
{{- if eq .object.kind "Deployment" -}}
{{- $pods := .object.spec.template.metadata -}}
{{- $_ := set $pods "labels" (merge (deepCopy $ours) $pods.labels) -}}
{{- end -}}
{{- $chart := printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" -}}
{{- $helms := dict "app.kubernetes.io/managed-by" .root.Release.Service "helm.sh/chart" $chart -}}
{{- $_ := set $metadata "labels" (merge $helms $ours ($metadata.labels | default dict)) -}}
{{- end -}}

{{/* A Deployment: image, flags, and where its pods run. */}}
{{- define "vscheduler.adaptPods" -}}
{{- $values := .root.Values -}}
{{- $_ := set .object.spec "replicas" (int .half.replicas) -}}
{{- $pods := .object.spec.template -}}
{{- $container := first $pods.spec.containers -}}
{{- $tag := $values.image.tag | default .root.Chart.AppVersion -}}
{{- $_ := set $container "image" (printf "%s:%s" $values.image.repository $tag) -}}
{{- $_ := set $container "imagePullPolicy" $values.image.pullPolicy -}}
{{- $_ := set $container "resources" (mergeOverwrite $container.resources (.half.resources | default dict)) -}}
{{- $flags := list -}}
{{- range $container.args -}}
{{- if and (not $.name) (hasPrefix "--scheduler-name=" .) -}}
{{- range $values.schedulers -}}
{{- $flags = append $flags (printf "--scheduler-name=%s" .name) -}}
{{- end -}}
{{- else -}}
{{- $flags = append $flags . -}}
{{- end -}}
{{- end -}}
{{- if and .name $values.page -}}
{{- $flags = append $flags "--web-address=127.0.0.1:8090" -}}
{{- end -}}
{{- $history := .half.history | default dict -}}
{{- if $history.enabled -}}
{{- $flags = append $flags "--history-file=/var/lib/vscheduler/history.db" -}}
{{- $mount := dict "name" "history" "mountPath" "/var/lib/vscheduler" -}}
{{- $_ := set $container "volumeMounts" (append $container.volumeMounts $mount) -}}
{{- $volume := dict "name" "history" "emptyDir" (dict "sizeLimit" ($history.size | default "2Gi")) -}}
{{- if $history.claim -}}
{{- $volume = dict "name" "history" "persistentVolumeClaim" (dict "claimName" $history.claim) -}}
{{- end -}}
{{- $_ := set $pods.spec "volumes" (append $pods.spec.volumes $volume) -}}
{{- $_ := set $pods.spec.securityContext "fsGroup" 65532 -}}
{{- end -}}
{{- $_ := set $container "args" (concat $flags (.half.args | default list)) -}}
{{- range $key, $value := pick $values "nodeSelector" "tolerations" "affinity" -}}
{{- if $value -}}
{{- $_ := set $pods.spec $key $value -}}
{{- end -}}
{{- end -}}
{{- if $values.image.pullSecrets -}}
{{- $_ := set $pods.spec "imagePullSecrets" $values.image.pullSecrets -}}
{{- end -}}
{{- if $values.podAnnotations -}}
{{- $_ := set $pods.metadata "annotations" $values.podAnnotations -}}
{{- end -}}
{{- end -}}

{{/* A policy knows the accounts of all schedulers, and their names. */}}
{{- define "vscheduler.adaptPolicy" -}}
{{- $others := list -}}
{{- $names := list -}}
{{- range .root.Values.schedulers -}}
{{- $names = append $names (squote .name) -}}
{{- if not (or (eq .name "vscheduler") (hasPrefix "vscheduler-" .name)) -}}
{{- $others = append $others .name -}}
{{- end -}}
{{- end -}}
{{- $spec := toJson .object.spec -}}
{{- if $others -}}
{{- $account := `vscheduler(-[a-z0-9.-]+)?` -}}
{{- $spec = replace $account (printf "(%s|%s)" $account (join "|" $others)) $spec -}}
{{- end -}}
{{- $shipped := `['vscheduler', 'vscheduler-online', 'vscheduler-offline']` -}}
{{- $spec = replace $shipped (printf "[%s]" (join ", " $names)) $spec -}}
{{- $_ := set .object "spec" (fromJson $spec) -}}
{{- end -}}
