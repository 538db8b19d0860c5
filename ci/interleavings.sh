#!/usr/bin/env bash
# What ci/loom.sh prints, summed up by protocol: the table in docs/model-checking.md.
#
#   ci/loom.sh | ci/interleavings.sh
set -euo pipefail
awk '
    match($0, /[a-z -]+: .*: [0-9]+ interleavings/) {
        line = substr($0, RSTART, RLENGTH)
        sub(/^(.*\.\.\.)? */, "", line)
        protocol = line
        sub(/:.*/, "", protocol)
        sub(/ interleavings$/, "", line)
        # One that is explored in two ways is one model.
        name = line
        sub(/: [0-9]+$/, "", name)
        if (!known[name]++) models[protocol]++
        sub(/^.*: /, "", line)
        explored[protocol] += line
        all += line
    }
    END {
        if (!all) { print "no model is named in this" > "/dev/stderr"; exit 1 }
        for (protocol in models) printf "%-16s %3d models %9d interleavings\n", protocol, models[protocol], explored[protocol]
        printf "%-16s %20d interleavings\n", "~ all", all
    }' | sort
