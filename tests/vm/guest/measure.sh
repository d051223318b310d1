# Measures block devices by the instructions that an I/O takes, in a machine of kind `counted`: one
# processor, on which an instruction takes a nanosecond, so that time is the count of instructions,
# and the same from run to run. docs/results/performance.md says what that means and what it doesn't.
#
# What the functions below set:
#   iops           of the last measurement, in the machine's time
#   instructions   that the processor carried out for an I/O, whoever's they were
#   found          the two, by target and row
#   spent          of the last command, whoever's instructions they were
# shellcheck shell=bash disable=SC2034

# By which fio runs commands.
ln -sf bash /usr/bin/sh

# timed_members COUNT NS [MIB]: null_blk devices in memory, all of it taken, which take so long for an
# I/O (0: none but the processor's).
timed_members() {
    local number dir name mib=${3:-48}
    members=()
    [[ -d /sys/kernel/config/nullb ]] || modprobe null_blk nr_devices=0
    for ((number = 0; number < $1; number++)); do
        name=timed$((made++))
        dir=/sys/kernel/config/nullb/$name
        mkdir "$dir"
        echo "$mib" >"$dir/size"
        echo 4096 >"$dir/blocksize"
        echo 1 >"$dir/memory_backed"
        # Completed by a timer, or at once.
        echo $(($2 ? 2 : 0)) >"$dir/irqmode"
        echo "$2" >"$dir/completion_nsec"
        echo 1 >"$dir/power"
        members+=("/dev/$name")
        dd if=/dev/zero of="/dev/$name" bs=1M count="$mib" oflag=direct status=none
    done
}

# Takes them away.
drop_members() {
    local member
    for member in "${members[@]}"; do
        # Its memory goes with its power.
        echo 0 >"/sys/kernel/config/nullb/${member##*/}/power"
        rmdir "/sys/kernel/config/nullb/${member##*/}"
    done
    members=()
}

# Options with which arrays are started.
starting=()

# serve_array OPTIONS...: an Evenkeel array of the members, as `disk`, with nothing left to do.
serve_array() {
    create --chunk 64K "$@" >/dev/null
    start "${starting[@]}"
    evenkeel rebuild status tank --wait >/dev/null
    warm_up
}

# serve_md OPTIONS...: the same by Linux md.
serve_md() {
    mdadm --create /dev/md7 --run --assume-clean --metadata=1.2 --chunk=64 "$@" \
        --raid-devices="${#members[@]}" "${members[@]}" 2>/run/mdadm || fail "$(</run/mdadm)"
    disk=/dev/md7
    warm_up
}

stop_md() {
    mdadm --stop /dev/md7 2>/dev/null
}

# Writes all of the disk: what was never written is quicker to read and to write.
warm_up() {
    measure write 1M 16 $(($(blockdev --getsize64 "$disk") >> 20))
    settle
}

# Lets what a change has set off come to its end.
settle() {
    measure randread 4k 16 500
}

# Whether the kernel tells how long the processor has slept: Linux 7 no longer does. Members without
# delay let nobody sleep.
tells_sleep() {
    grep -q sleeptime /proc/timer_list
}

# How long the processor has slept, in nanoseconds: of a copy of /proc/timer_list.
slept() {
    local word number sum=0
    while read -r word _ number _; do
        [[ $word != .*sleeptime ]] || sum=$((sum + number))
    done < <(grep sleeptime "$1")
    echo "$sum"
}

# spend COMMAND...: `spent` are the instructions that the processor carries out until the command has ended.
spend() {
    local begun ended
    cat /proc/timer_list >/run/before
    begun=${EPOCHREALTIME/./}
    "$@" >/run/said 2>&1 || fail "$(</run/said)"
    ended=${EPOCHREALTIME/./}
    cat /proc/timer_list >/run/after
    spent=$(((ended - begun) * 1000 - $(slept /run/after) + $(slept /run/before)))
}

# measure RW BS DEPTH COUNT OPTIONS...: so many I/Os of `disk` by fio.
measure() {
    local rw=$1 bs=$2 depth=$3 count=$4 said fields ms at=8
    local kib=${bs%[kM]}
    [[ $bs != *M ]] || kib=$((kib * 1024))
    (cd /run && fio --eta=never --output-format=terse --terse-version=3 --name=measure \
        --filename="$disk" --ioengine=io_uring --direct=1 --rw="$rw" --bs="$bs" \
        --iodepth="$depth" --io_size=$((count * kib))k --norandommap --randseed=1 --gtod_reduce=1 \
        --exec_prerun='cat /proc/timer_list' \
        --exec_postrun='cat /proc/timer_list' "${@:5}" >fio 2>&1) || fail "$(</run/fio)"
    said=$(grep '^3;' /run/fio) || fail "$(</run/fio)"
    IFS=';' read -ra fields <<<"$said"
    [[ $rw != *write ]] || at=49
    ms=${fields[at]}
    ((ms > 0)) || fail "measured nothing: $(</run/fio)"
    local idle=$(($(slept /run/measure.postrun.txt) - $(slept /run/measure.prerun.txt)))
    iops=$((count * 1000 / ms))
    instructions=$(((ms * 1000000 - idle) / count))
}

# The same work for all, in this order: sequential writes after small ones meet what these have left in
# Evenkeel's journal.
rows=(
    "sequential reads 1M, depth 1:read 1M 1 50"
    "sequential reads 1M, depth 16:read 1M 16 96"
    "sequential writes 1M, depth 1:write 1M 1 50"
    "sequential writes 1M, depth 16:write 1M 16 96"
    "random reads 4K, depth 1:randread 4k 1 2000"
    "random reads 4K, depth 16:randread 4k 16 4000"
    "random writes 4K, depth 1:randwrite 4k 1 1500"
    "random writes 4K, depth 16:randwrite 4k 16 3000"
    "random writes 4K, depth 64:randwrite 4k 64 3000"
    "random writes 64K, depth 16:randwrite 64k 16 800"
    "random reads (70%) and writes 16K, depth 16:randrw 16k 16 3000 --rwmixread=70"
    "random writes 4K within 1M, depth 1:randwrite 4k 1 1500 --size=1M"
    "random writes 4K within 1M, depth 16:randwrite 4k 16 3000 --size=1M"
    "random writes 4K within 8M, depth 16:randwrite 4k 16 3000 --size=8M"
    "random writes 4K, a flush after 32, depth 1:randwrite 4k 1 1500 --fsync=32"
    "random writes 4K, a flush after 32, depth 16:randwrite 4k 16 3000 --fsync=32"
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
        printf '%-28s %-44s %8s IOPS %9s instructions\n' \
            "$target" "${row%:*}" "$iops" "$instructions"
    done
}

# compared TITLE RIVAL OURS ROW...: a table, with how many times as fast ours is.
compared() {
    local title=$1 rival=$2 ours=$3 row theirs own ratio
    shift 3
    printf '\n%s\n\n' "$title"
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
