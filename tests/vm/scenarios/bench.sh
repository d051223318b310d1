# how many instructions an I/O takes, beside Linux md: docs/results/performance.md
# machine: counted
# program: null
# program: rival
. /vm/measure.sh

# A degraded array misses its last member.
degraded=(
    "degraded reads 4K, depth 1:randread 4k 1 2000"
    "degraded reads 4K, depth 16:randread 4k 16 4000"
)

# evenkeel_rows LEVEL CONSISTENCY
evenkeel_rows() {
    timed_members "$count" "$delay"
    serve_array --level "$1" --consistency "$2"
    measured "evenkeel $1 $2" "${rows[@]}"
    if [[ $1 != raid0 ]]; then
        evenkeel disk fail tank $((${#members[@]} - 1)) >/dev/null
        settle
        measured "evenkeel $1 $2" "${degraded[@]}"
    fi
    stop >/dev/null
    drop_members
}

# md_rows LEVEL CONSISTENCY OPTIONS...
md_rows() {
    timed_members "$count" "$delay"
    serve_md "${@:3}" --level="$1"
    measured "md $1 $2" "${rows[@]}"
    if [[ $1 != raid0 ]]; then
        mdadm --fail /dev/md7 "${members[-1]}" 2>/dev/null
        settle
        measured "md $1 $2" "${degraded[@]}"
    fi
    stop_md
    drop_members
}

for delay in 0 300000; do
    of="members of $((delay / 1000)) µs"
    if ((delay > 0)) && ! tells_sleep; then
        say "$of: not measured, as this kernel does not tell how long the processor sleeps"
        continue
    fi
    say "$of"
    count=5
    evenkeel_rows raid0 resync
    md_rows raid5 bitmap --bitmap=internal
    evenkeel_rows raid5 bitmap
    md_rows raid5 ppl --consistency-policy=ppl
    evenkeel_rows raid5 journal
    count=6
    md_rows raid6 bitmap --bitmap=internal
    evenkeel_rows raid6 bitmap
    evenkeel_rows raid6 journal
    all=("${rows[@]}" "${degraded[@]}")
    compared "The write hole open, $of" "md raid5 bitmap" "evenkeel raid5 bitmap" "${all[@]}"
    compared "The write hole closed, $of" "md raid5 ppl" "evenkeel raid5 journal" "${all[@]}"
    compared "The write hole open, $of" "md raid6 bitmap" "evenkeel raid6 bitmap" "${all[@]}"
    compared "The write hole open, and closed, $of" "md raid6 bitmap" "evenkeel raid6 journal" "${all[@]}"
    compared "What parity costs, $of" "evenkeel raid0 resync" "evenkeel raid5 journal" "${rows[@]}"
done

# The front end alone; last, since its device outlives its server.
say "no members"
. /vm/null.sh
