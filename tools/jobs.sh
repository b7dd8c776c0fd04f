# For the checks of tools/ that source it: tests that run as many at a time as there are processors, and are counted. The caller
# sets `label`.

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
started=$SECONDS
step() { echo "== $((SECONDS - started)) s: $*"; }
skip() { echo "skipped: $label: $*"; skipped=$((skipped + 1)); }
finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ $failed = 0 ]
    exit
}

# Starts NAME as COMMAND...; its result is counted by wait_for_jobs.
jobs_started=()
start() { # NAME COMMAND...
    local name=$1
    shift
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
    jobs_started+=("$name")
    (
        rc=0
        "$@" >"$work/$name.log" 2>&1 || rc=$?
        echo $rc >"$work/$name.rc"
    ) &
}

wait_for_jobs() {
    wait
    local name rc
    for name in "${jobs_started[@]}"; do
        rc=$(cat "$work/$name.rc" 2>/dev/null || echo none)
        case $rc in
        0)
            passed=$((passed + 1))
            for skipped_case in $(sed -n 's/^\[  SKIPPED \] \([a-z_0-9]*\)$/\1/p' "$work/$name.log" | sort -u); do
                skip "$name: $skipped_case"
            done
            ;;
        77) skip "$name: $(tail -n 1 "$work/$name.log")" ;;
        *)
            failed=$((failed + 1))
            echo "---- $label: $name: exit $rc"
            tail -n 40 "$work/$name.log"
            echo "failed: $label: $name"
            ;;
        esac
    done
    jobs_started=()
}
