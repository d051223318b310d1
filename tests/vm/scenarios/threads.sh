# what an array's threads each do for an I/O, with one and with several: docs/results/performance.md
# machine: counted
. /vm/measure.sh

# thread_times SIGN: adds what each of the daemon's threads has run so far to `ran`, or takes it away.
thread_times() {
    local task name sofar
    for task in /proc/"$daemon"/task/*; do
        read -r name <"$task/comm"
        read -r sofar _ <"$task/schedstat"
        name=${name%%-*}
        ran[$name]=$((${ran[$name]:-0} $1 sofar))
    done
}

# thread_rows THREADS ROW...: of an array that runs on so many.
thread_rows() {
    local threads=$1 row work name
    shift
    starting=(--threads "$threads")
    serve_array --level raid5 --consistency "$consistency"
    for row; do
        read -ra work <<<"${row#*:}"
        local -A ran=()
        thread_times -
        measure "${work[@]}"
        thread_times +
        printf '| %s | %d | %d | %d | %d |\n' "$consistency, ${row%:*}" "$threads" "$instructions" \
            $((ran[array tank] / work[3])) $((${ran[io]:-0} / work[3]))
    done
    stop >/dev/null
}

echo '| | threads | instructions of all, fio among them | of the thread that decides | of the others |'
echo '|---|---|---|---|---|'
rows=(
    "random reads 4K, depth 1:randread 4k 1 2000"
    "random reads 4K, depth 16:randread 4k 16 8000"
    "random reads 4K, depth 64:randread 4k 64 8000"
    "random writes 4K, depth 16:randwrite 4k 16 3000"
    "random writes 4K, depth 64:randwrite 4k 64 6000"
    "sequential reads 1M, depth 16:read 1M 16 96"
    "sequential writes 1M, depth 16:write 1M 16 96"
)
# As flash takes for a read.
delay=80000
for consistency in bitmap journal; do
    for threads in 1 2 3 5; do
        timed_members 5 "$delay"
        thread_rows "$threads" "${rows[@]}"
        drop_members
    done
done
