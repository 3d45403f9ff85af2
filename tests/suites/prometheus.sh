#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The alert rules and the dashboard must be well-formed, use metrics that the daemon has, and give results from a Prometheus that has
# scraped it.
# own processes
set -u
. tests/lib.sh

dashboard() { python3 tests/prometheus/dashboard.py "$@"; }
check 'dashboard: panels, ids, places, variables' dashboard form
check 'alerts and dashboard name only what there is' dashboard names docs/METRICS.md
check 'dashboard: each counter of what was lost' dashboard losses docs/METRICS.md
if command -v promtool >/dev/null; then
	check 'alerts: promtool takes the rules' promtool check rules dist/prometheus/alerts.yaml
	check 'alerts: fire when they should, and not otherwise' promtool test rules dist/prometheus/alerts_test.yaml
	dashboard rules >"$TMP/rules.yaml"
	check 'dashboard: promtool takes the expressions' promtool check rules "$TMP/rules.yaml"
else
	skip 'alerts and dashboard: promtool' 'promtool is not installed'
fi
needs_tracing prometheus

lib=$TMP/lib
mkdir "$lib"
cp "$FAKE/libcuda.so.1" "$FAKE/sample" "$lib/"
ports=$(two_ports)
port=${ports% *} server=${ports#* }
get() { python3 tests/helpers/fetch.py "http://127.0.0.1:$1"; }
run_sample() { LD_LIBRARY_PATH=$lib "$lib/sample" --tokens 20 --layers 2 </dev/null >/dev/null; }
printf 'level: off\nrules:\n  - match: {command: "%s/*"}\n    level: metrics\n' "$TMP" >"$TMP/c.yaml"
"$CUDATRACE" daemon --config "$TMP/c.yaml" --libcuda "$lib/libcuda.so.1" --set files.directory="$TMP/files" --set ctl.socket="$TMP/ctl.sock" \
	--set metrics.listen=127.0.0.1:"$port" >"$TMP/log" 2>&1 </dev/null &
daemon=$!
prometheus=
trap 'kill $daemon $prometheus 2>/dev/null; wait' EXIT
until_ok 20 get "$port/healthz" || { fail 'the daemon starts' "$(tail -3 "$TMP/log")"; exit; }
run_sample
get "$port/metrics" >"$TMP/metrics"
check 'the daemon serves what the documentation says' dashboard served "$TMP/metrics" docs/METRICS.md

# Programs whose names have the same length and are not ASCII; some are not UTF-8, or look like escaped names.
for name in 训练任务 推理服务 обучать $'\xff\xfe' $'\xfe\xff' '\xff\xfe' 'a"b\c' $'a\nb' $'a\nc' '(others)'; do
	cp "$lib/sample" "$lib/$name"
	LD_LIBRARY_PATH=$lib "$lib/$name" --tokens 2 --layers 1 </dev/null >/dev/null
done
get "$port/metrics" >"$TMP/metrics"
check 'names of programs: each series is there once' dashboard series "$TMP/metrics" 训练任务 推理服务 обучать \
	'\\xff\\xfe' '\\xfe\\xff' '\\x5cxff\\x5cxfe' 'a\"b\\c' 'a\\x0ab' 'a\\x0ac' '(others)'
twice() { get "$server/api/v1/query?query=prometheus_target_scrapes_sample_duplicate_timestamp_total" | jq -r '.data.result[0].value[1]'; }

command -v prometheus >/dev/null || { skip 'a Prometheus that scrapes it' 'prometheus is not installed'; exit; }
cat >"$TMP/prometheus.yml" <<END
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [$PWD/dist/prometheus/alerts.yaml]
scrape_configs:
  - job_name: cudatrace
    honor_labels: true
    static_configs: [{targets: ["127.0.0.1:$port"]}]
  - job_name: prometheus
    static_configs: [{targets: ["127.0.0.1:$server"]}]
END
prometheus --config.file="$TMP/prometheus.yml" --storage.tsdb.path="$TMP/tsdb" --web.listen-address=127.0.0.1:"$server" >"$TMP/prometheus.log" 2>&1 </dev/null &
prometheus=$!
up() { get "$server/api/v1/query?query=up{job=\"cudatrace\"}" | jq -e '.data.result[0].value[1] == "1"'; }
check 'prometheus: takes the scrape' until_ok 30 up
for _ in 1 2 3; do run_sample; sleep 1.2; done
# After a scrape longer than a second there are no results until the next one.
answers() { dashboard query "http://127.0.0.1:$server" "$TMP/metrics"; }
check 'prometheus: each expression of the dashboard answers' eval 'until_ok 10 answers || answers'
calls() { get "$server/api/v1/query?query=sum(cudatrace_launches_total)" | jq -r '.data.result[0].value[1]'; }
get "$port/metrics" >"$TMP/metrics"
check 'prometheus: the numbers are the same' until_ok 10 eval '[ "$(calls)" = "$(awk "/^cudatrace_launches_total/ { n += \$2 } END { print n }" "$TMP/metrics")" ]'
check 'prometheus: no series came twice' until_ok 10 eval '[ "$(twice)" = 0 ]'
check 'prometheus: nothing fires' eval '! get "$server/api/v1/alerts" | jq -e ".data.alerts[] | select(.state == \"firing\")"'
