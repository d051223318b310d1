# how many instructions an I/O takes, beside Linux md: docs/performance.md
# machine: counted
. /vm/measure.sh

# The same work for all, in this order: sequential writes after small ones meet what these have left in
# Evenkeel's journal. A degraded array misses its last member.
rows=(
    "sequential reads 1M, depth 1:read 1M 1 50"
    "sequential reads 1M, depth 16:read 1M 16 96"
    "sequential writes 1M, depth 1:write 1M 1 50"
    "sequential writes 1M, depth 16:write 1M 16 96"
    "random reads 4K, depth 1:randread 4k 1 2000"
    "random reads 4K, depth 16:randread 4k 16 4000"
    "random writes 4K, depth 1:randwrite 4k 1 1500"
    "random writes 4K, depth 16:randwrite 4k 16 3000"
)
degraded=(
    "degraded reads 4K, depth 1:randread 4k 1 2000"
    "degraded reads 4K, depth 16:randread 4k 16 4000"
)

# By target and row.
declare -A found=()

# measured TARGET ROW...: all of them.
measured() {
    local target=$1 row work
    shift
    for row; do
        read -ra work <<<"${row#*:}"
        measure "${work[@]}"
        found[$target, ${row%:*}]="$iops $instructions"
        printf '%-28s %-30s %8s IOPS %9s instructions\n' \
            "$target" "${row%:*}" "$iops" "$instructions"
    done
}

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

# compared TITLE RIVAL OURS ROW...: a table, with how many times as fast ours is.
compared() {
    local title=$1 rival=$2 ours=$3 row theirs own ratio
    shift 3
    printf '\n%s, members of %s µs\n\n' "$title" "$((delay / 1000))"
    echo "| | IOPS: $rival | IOPS: $ours | ratio | instructions: $rival | instructions: $ours |"
    echo '|---|---|---|---|---|---|'
    for row; do
        read -ra theirs <<<"${found[$rival, ${row%:*}]}"
        read -ra own <<<"${found[$ours, ${row%:*}]}"
        ratio=$((own[0] * 100 / theirs[0]))
        printf '| %s | %d | %d | %d.%02d | %d | %d |\n' "${row%:*}" "${theirs[0]}" "${own[0]}" \
            $((ratio / 100)) $((ratio % 100)) "${theirs[1]}" "${own[1]}"
    done
}

for delay in 0 300000; do
    say "members of $((delay / 1000)) µs"
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
    compared "The write hole open" "md raid5 bitmap" "evenkeel raid5 bitmap" "${all[@]}"
    compared "The write hole closed" "md raid5 ppl" "evenkeel raid5 journal" "${all[@]}"
    compared "The write hole open" "md raid6 bitmap" "evenkeel raid6 bitmap" "${all[@]}"
    compared "The write hole open, and closed" "md raid6 bitmap" "evenkeel raid6 journal" "${all[@]}"
    compared "What parity costs" "evenkeel raid0 resync" "evenkeel raid5 journal" "${rows[@]}"
done
