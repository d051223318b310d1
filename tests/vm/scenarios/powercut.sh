# the power fails under load: what each member had flushed, and any of the rest, is a sound array
# program: powercut
points=$((rounds * 7))

# Members log what they are given, in the order in which it becomes durable. Above each is a mapping
# that can be stopped.
null_members 4 32
devices=("${members[@]}")
members=()
null_members 4 1024
logs=("${members[@]}")
members=()
for index in 0 1 2 3; do
    sectors=$(blockdev --getsz "${devices[index]}")
    dmsetup create "log$index" \
        --table "0 $sectors log-writes ${devices[index]} ${logs[index]}"
    dmsetup create "top$index" --table "0 $sectors linear /dev/mapper/log$index 0"
    members+=("/dev/mapper/top$index")
done
each() {
    local index
    for index in 0 1 2 3; do
        "$@" "$index"
    done
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

say "$points points under load"
create --level raid5 --chunk 64K >/dev/null
start
evenkeel rebuild status tank --wait >/dev/null
coproc user { powercut write "$disk" /run/ledger --points "$points" 2>/run/user; }
writer=$user_PID
while read -r _ number <&"${user[0]}"; do
    point "$number"
    echo >&"${user[1]}"
done
wait "$writer" || fail "$(</run/user)"
stop
each remove top
each remove log

for ((number = 0; number < points; number++)); do
    members=() pairs=()
    for index in 0 1 2 3; do
        rm -f "/tmp/cut$index"
        truncate -s 32M "/tmp/cut$index"
        members+=("/tmp/cut$index")
        pairs+=("${logs[index]}=/tmp/cut$index")
    done
    powercut replay --point "$number" --seed "$RANDOM" "${pairs[@]}" >/run/replayed
    if ((number % 2)); then
        lost=$((RANDOM % 4)) && unset "members[$lost]"
        say "the power fails at point $number, and takes member $lost with it"
        start --degraded
    else
        say "the power fails at point $number"
        start
    fi
    powercut check "$disk" /run/ledger --point "$number" ||
        fail "point $number: $(</run/replayed)"
    ((number % 2)) || whole
    stop
done
no_device_left
