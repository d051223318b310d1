# the power fails under load: what each member had flushed, and any of the rest, is a sound array
# program: powercut
points=$((rounds * 7))

# What is created, and how many of its members may go with the power. The first is what short runs
# are about. None writes rows whole and in place, of which nothing is promised then, but where it is
# reshaped, from point to point.
arrays=(
    "--level raid5 --chunk 64K:1"
    "reshaped --level raid5 --chunk 64K:1"
    "--level raid5 --chunk 64K --cache log:1"
    "--level raid6 --chunk 64K:2"
    "--layout log-raid5 --segment 256K:1"
    "--level raid4 --chunk 64K:1"
    "--level raid1:3"
)
# The logs of more points would not fit into the machine.
points_of_series=21

# Members log what they are given, in the order in which it becomes durable. Above each is a mapping
# that can be stopped.
null_members 4 32
devices=("${members[@]}")
members=()
null_members 4 1024
logs=("${members[@]}")
each() {
    local index
    for index in 0 1 2 3; do
        "$@" "$index"
    done
}
log_member() {
    local sectors
    sectors=$(blockdev --getsz "${devices[$1]}")
    blkdiscard "${devices[$1]}"
    blkdiscard "${logs[$1]}"
    dmsetup create "log$1" --table "0 $sectors log-writes ${devices[$1]} ${logs[$1]}"
    dmsetup create "top$1" --table "0 $sectors linear /dev/mapper/log$1 0"
}
stops() { dmsetup suspend --noflush --nolockfs "top$1"; }
goes_on() { dmsetup resume "top$1"; }
mark() { dmsetup message "log$2" 0 mark "$1"; }
remove() { dmsetup remove "$1$2"; }

# An instant at which the power could have failed: nothing is under way in any member.
point() {
    each stops
    each mark "before-$1"
    sync --data /dev/mapper/log[0-3]
    each mark "at-$1"
    each goes_on
}

# changes: unless the array is being reshaped, that begins: it gets a member more at first, and
# then another placement each time.
changes() {
    local to=(--placement left-symmetric)
    { evenkeel status tank || true; } >/run/status
    ! grep -q "work: reshape" /run/status || return 0
    changed=$((changed + 1))
    if ((changed == 1)); then
        to=(--members +1)
    elif ((changed % 2 == 0)); then
        to=(--placement right-asymmetric)
    fi
    evenkeel reshape tank "${to[@]}" >/run/said 2>&1 || fail "$(</run/said)"
}

# written_until COUNT [reshaped] OPTIONS...: an array is written, and so many points are marked.
written_until() {
    local count=$1 number writer asked answer changed=0 all reshaped=''
    shift
    each log_member
    all=(/dev/mapper/top[0-3])
    members=("${all[@]}")
    if [[ $1 == reshaped ]]; then
        reshaped=1
        members=("${all[@]:0:3}")
        shift
    fi
    create "$@" >/dev/null
    evenkeel start --background --ublk "${members[@]}" >/dev/null
    disk=$(readlink -f /dev/evenkeel/tank)
    evenkeel rebuild status tank --wait >/dev/null
    [[ ! $reshaped ]] || evenkeel disk add tank "${all[3]}" >/dev/null
    coproc user {
        powercut write "$disk" /run/ledger --points "$count" --seed "$RANDOM" 2>/run/user
    }
    writer=$user_PID
    # The coprocess's own are closed when it ends, at whatever moment bash finds that out.
    exec {asked}<&"${user[0]}" {answer}>&"${user[1]}"
    while read -r _ number <&"$asked"; do
        point "$number"
        # So the next reshape begins under load.
        echo >&"$answer"
        [[ ! $reshaped ]] || changes
    done
    exec {asked}<&- {answer}>&-
    wait "$writer" || fail "$(</run/user)"
    [[ ! $reshaped ]] || say "it was reshaped $changed times meanwhile"
    evenkeel stop tank
    each remove top
    each remove log
}

# failed_at POINT SPARED: the power fails there, and every other time takes up to so many members
# with it.
failed_at() {
    local number=$1 lost=() pairs=() index
    members=()
    for index in 0 1 2 3; do
        rm -f "/tmp/cut$index"
        truncate -s 32M "/tmp/cut$index"
        members+=("/tmp/cut$index")
        pairs+=("${logs[index]}=/tmp/cut$index")
    done
    powercut replay --point "$number" --seed "$RANDOM" "${pairs[@]}" >/run/replayed
    evenkeel --json examine "${members[@]}" >/run/said || true
    ! grep -q '"reshaped_from":"' /run/said || amid=$((amid + 1))
    if ((number % 2)); then
        local first=$((RANDOM % 4)) count=$((1 + RANDOM % $2))
        for ((index = first; index < first + count; index++)); do
            lost+=($((index % 4)))
            unset "members[index % 4]"
        done
        say "the power fails at point $number, and takes what is lost with it: ${lost[*]}"
        start --degraded
    else
        say "the power fails at point $number"
        start
    fi
    powercut check "$disk" /run/ledger --point "$number" ||
        fail "point $number: $(</run/replayed)"
    ((${#lost[@]})) || whole
    stop
}

amid=0
for ((series = 0, left = points; left > 0; series++)); do
    count=$((left < points_of_series ? left : points_of_series))
    left=$((left - count))
    IFS=: read -r created spared <<<"${arrays[series % ${#arrays[@]}]}"
    read -ra options <<<"$created"
    say "$count points under load, of $created"
    written_until "$count" "${options[@]}"
    for ((number = 0; number < count; number++)); do
        failed_at "$number" "$spared"
    done
done
no_device_left
say "$points points in $series series, $amid of them amid a reshape"
