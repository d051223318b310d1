# how many instructions a small write takes with the staging log as a cache, beside Linux md: docs/results/performance.md
# machine: counted
. /vm/measure.sh

# A burst has room in the log. Of what lasts most comes home meanwhile.
work=()
for row in "${rows[@]}"; do
    [[ $row != "random writes"* ]] || work+=("$row")
done
work+=(
    "random writes 4K that last, depth 16:randwrite 4k 16 24000"
    "random writes 4K that last, depth 64:randwrite 4k 64 24000"
)

for delay in 0 300000; do
    of="members of $((delay / 1000)) µs"
    if ((delay > 0)) && ! tells_sleep; then
        say "$of: not measured, as this kernel does not tell how long the processor sleeps"
        continue
    fi
    for kind in bitmap ppl; do
        option=--consistency-policy=ppl
        [[ $kind == ppl ]] || option=--bitmap=internal
        timed_members 5 "$delay"
        serve_md "$option" --level=raid5
        measured "md $kind" "${work[@]}"
        stop_md
        drop_members
    done
    timed_members 5 "$delay"
    serve_array --level raid5 --cache log
    for row in "${work[@]}"; do
        measured "evenkeel journal, cache log" "$row"
        # The next one begins with an empty log.
        evenkeel cache flush tank >/dev/null
    done
    stop >/dev/null
    drop_members
    compared "The write hole open, $of" "md bitmap" "evenkeel journal, cache log" "${work[@]}"
    compared "The write hole closed, $of" "md ppl" "evenkeel journal, cache log" "${work[@]}"
done
