#!/bin/sh
# The tour of the gateway's client tests, by curl. Usage: tour.sh BASE [curl's flags]
# Prints one JSON line per stop; what they should say is in tests/gateway/clients.
set -eu
base=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# curl NAME PATH [flags]: what came, as JSON. A body of 200 bytes or more is told by its hash.
stop() {
    name=$1 path=$2
    shift 2
    # shellcheck disable=SC2086
    head=$(curl -sS --max-time 30 -o "$folder/body" -w '"status":%{http_code},"version":"%{http_version}","quell-attempts":"%header{quell-attempts}","quell-stop":"%header{quell-stop}","retry-after":"%header{retry-after}"' $flags "$@" "$base$path")
    if [ "$(wc -c <"$folder/body")" -lt 200 ]; then
        body=$(sed 's/"/\\"/g' "$folder/body")
    else
        body=$(sha256sum <"$folder/body" | cut -d' ' -f1)
    fi
    printf '{"stop":"%s",%s,"body":"%s"}\n' "$name" "$head" "$body"
}

flags=$*
i=0
: >"$folder/post"
# 0 to 250, again and again
bytes=$(while [ $i -lt 251 ]; do printf '\\%03o' $i; i=$((i + 1)); done)
# shellcheck disable=SC2059
i=0; while [ $i -lt 399 ]; do printf "$bytes"; i=$((i + 1)); done | head -c 100000 >"$folder/post"

stop get '/hello?from=here'
stop post /echo --data-binary "@$folder/post" -H 'content-type: application/octet-stream'
stop retried /flaky
stop passes /limited
stop refused /limited
stop large /large

# shellcheck disable=SC2086
curl -sSN --max-time 30 $flags "$base/events" | {
    events=
    while IFS= read -r line; do
        case $line in
        "data: "*)
            events="$events${events:+ }${line#data: }"
            curl -sS --max-time 30 -o "$folder/next" -X POST $flags "$base/next"
            ;;
        esac
    done
    printf '{"stop":"stream","body":"%s"}\n' "$events"
}
